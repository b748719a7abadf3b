@_spi(Extensions) public import Varve

/// The edges of a domain in one transaction, with methods to find them, to add and remove them by hand, and to apply
/// the rules.
///
/// Methods that find edges see the writes of the transaction. Every method throws `.transactionEnded` after the
/// transaction's end, and methods that change something throw `.readOnly` in a read.
///
/// An instance belongs to the thread of its transaction.
public final class RelationshipsTransaction: ExtensionTransaction {
  /// The type of the extension.
  public typealias Definition = Relationships

  let definition: Relationships
  let context: ExtensionContext<Relationships>
  let families: EdgeFamilies
  /// The family of the files that have to be removed.
  let files: Part
  /// The edges that may have changed, or nil if changes are not observed.
  var observed: ObservedEdges?
  /// The number of files that rules have released for removal.
  var removedFiles = 0
  var log = EdgeLog()
  /// The log's marks of savepoints, by their numbers.
  private var marks: [EdgeLog.Mark] = []
  /// The kinds of collections' rows, by the numbers of the collections.
  private var nodes: [UInt32: NodeKind] = [:]
  /// The last result for a collection.
  private var lastNode: (collection: UInt32, kind: NodeKind)?
  /// The numbers of collections, by their names.
  private var numbers: [String: UInt32] = [:]
  private var lastNumber: (name: String, number: UInt32)?
  /// The buffers for the edge that is being written.
  var entry = EntryMemory()
  /// A closure that is called for each entry of an edge that rules read, so that tests can count them.
  var noteEntry: (() -> Void)?
  /// Whether rules are being applied.
  var isFlushing = false
  /// Whether a rule is removing rows.
  var isRemoving = false
  /// The row whose key is being changed, or nil if there is none.
  var movingEnd: [UInt8]?

  init(_ definition: Relationships, _ context: ExtensionContext<Relationships>) throws {
    self.definition = definition
    self.context = context
    families = try EdgeFamilies(context)
    files = try context.part("files")
    if context.isObserved { observed = ObservedEdges() }
  }

  /// Returns the transaction for a change. Throws `.readOnly` in a read.
  func writing() throws -> WriteTransaction {
    if let writer = context.writeTransaction { return writer }
    _ = try context.transaction
    throw DatabaseError(.readOnly, "edges of \"\(context.name)\" are changed in a read; a write may")
  }

  /// Returns the number of files that the commit releases, or nil if there are none.
  @_spi(Extensions) public func takeDelta(_ version: CommitVersion) -> Int? { removedFiles == 0 ? nil : removedFiles }

  // MARK: - Savepoints

  /// Returns a number for the current state of the log.
  @_spi(Extensions) public func mark() -> Int {
    marks.append(log.mark)
    return marks.count - 1
  }

  /// Removes what was noted after a savepoint.
  @_spi(Extensions) public func rollBack(to mark: Int) {
    log.rollBack(to: marks[mark])
    marks.removeSubrange((mark + 1)...)
  }

  // MARK: - Ends

  /// Returns the number of a row's collection, which is created if necessary.
  func number(making row: RowKey) throws -> UInt32 {
    if let lastNumber, lastNumber.name == row.collection { return lastNumber.number }
    let number = try numbers[row.collection] ?? writing().collectionNumber(creating: row)
    numbers[row.collection] = number
    lastNumber = (row.collection, number)
    return number
  }

  /// Returns the bytes of an end, and creates its collection if necessary.
  func end(making end: EdgeEnd) throws -> [UInt8] {
    var bytes: [UInt8] = []
    switch end {
    case .row(let row):
      let number = try number(making: row)
      row.withBytes { key in
        bytes.reserveCapacity(key.byteCount + 5)
        EdgeFormat.append(row: number, key, to: &bytes)
      }
    case .file(let root, let path): EdgeFormat.append(file: ComposedText.of(root), path, to: &bytes)
    }
    return bytes
  }

  /// Returns the bytes of an end, or nil if its collection does not exist, so that it has no edges.
  func end(_ end: EdgeEnd) throws -> [UInt8]? {
    guard case .row(let row) = end else { return try self.end(making: end) }
    guard let number = try context.transaction.collectionNumber(of: row.collection) else { return nil }
    var bytes: [UInt8] = []
    row.withBytes { EdgeFormat.append(row: number, $0, to: &bytes) }
    return bytes
  }

  /// Returns the end of bytes, or nil if its collection was dropped.
  func end(of bytes: ArraySlice<UInt8>) throws -> EdgeEnd? {
    if let (root, path) = EdgeFormat.fileLocation(bytes) { return .file(root: root, path: path) }
    return try row(of: bytes).map { .row($0) }
  }

  /// Returns the row of an end, or nil if it is not a row or its collection was dropped.
  func row(of end: ArraySlice<UInt8>) throws -> RowKey? {
    guard let number = EdgeFormat.collection(end) else { return nil }
    return try unsafe context.transaction.rowKey(EdgeFormat.key(end).span.bytes, inCollection: number)
  }

  /// Returns whether an end exists now. Files are not checked.
  func exists(_ end: ArraySlice<UInt8>) throws -> Bool {
    guard let number = EdgeFormat.collection(end) else { return true }
    return try unsafe context.transaction.contains(EdgeFormat.key(end).span.bytes, inCollection: number)
  }

  // MARK: - Nodes

  /// The kind of a collection's rows.
  enum NodeKind {
    /// The rows declare edges.
    case declaring(NodeAccess)
    /// The rows declare no edges, and no declared edge is stored for them.
    case plain
    /// The rows declare no edges, but declared edges may be stored for them from before.
    case formerlyDeclaring
    /// The program has not defined the collection.
    case undefined
  }

  func kind(of change: borrowing RowChange) throws -> NodeKind {
    let number = change.collectionNumber
    if let lastNode, lastNode.collection == number { return lastNode.kind }
    let kind = try nodes[number] ?? makeKind(number, change.objectType)
    nodes[number] = kind
    lastNode = (number, kind)
    return kind
  }

  private func makeKind(_ number: UInt32, _ type: (any (Codable & Sendable).Type)?) throws -> NodeKind {
    guard let type else { return .undefined }
    if let access = NodeAccess.of(type) { return .declaring(access) }
    // During a build, no declared edges are stored for them.
    guard try isComplete else { return .plain }
    let range = StorageRange(prefix: EdgeFormat.prefix(ofCollection: number))
    return try families.declared.from.first(in: range) == nil ? .plain : .formerlyDeclaring
  }

  /// Whether the edges of all rows are known. Rules are only applied in that case.
  var isComplete: Bool { get throws { try families.declared.from.isReady && families.declared.to.isReady } }
}
