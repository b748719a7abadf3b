public import Varve

/// The edges of a domain in one transaction: to find them, to add and remove them by hand, and to apply the rules.
///
/// Calls that look for edges see what the transaction has written. Every call throws `.transactionEnded` after the
/// transaction's end, and calls that change something `.readOnly` in a read.
///
/// It belongs to the thread of its transaction.
public final class RelationshipsTransaction: ExtensionTransaction {
  /// The extension.
  public typealias Definition = Relationships

  let definition: Relationships
  let context: ExtensionContext<Relationships>
  let families: EdgeFamilies
  /// Files that are to go.
  let files: Part
  /// Edges that may have changed; nil: changes are not observed.
  var observed: ObservedEdges?
  /// How many files rules let go.
  var removedFiles = 0
  var log = EdgeLog()
  /// Of savepoints, by their numbers.
  private var marks: [EdgeLog.Mark] = []
  /// Of collections, by their numbers.
  private var nodes: [UInt32: NodeKind] = [:]
  /// The collection that was asked for last.
  private var lastNode: (collection: UInt32, kind: NodeKind)?
  /// The numbers of collections, by their names.
  private var numbers: [String: UInt32] = [:]
  private var lastNumber: (name: String, number: UInt32)?
  /// Memory of the edge that is written.
  var entry = EntryMemory()
  /// Called for each entry of an edge that rules read: what they cost is counted by tests.
  var noteEntry: (() -> Void)?
  /// Whether rules are being applied.
  var isFlushing = false
  /// Whether a rule removes rows.
  var isRemoving = false
  /// The row that gets another key; nil: none does.
  var movingEnd: [UInt8]?

  init(_ definition: Relationships, _ context: ExtensionContext<Relationships>) throws {
    self.definition = definition
    self.context = context
    families = try EdgeFamilies(context)
    files = try context.part("files")
    if context.isObserved { observed = ObservedEdges() }
  }

  /// The transaction, for a change. Throws `.readOnly` in a read.
  func writing() throws -> WriteTransaction {
    if let writer = context.writeTransaction { return writer }
    _ = try context.transaction
    throw DatabaseError(.readOnly, "edges of \"\(context.name)\" are changed in a read; a write may")
  }

  /// How many files the commit lets go; nil: none.
  public func takeDelta(_ version: CommitVersion) -> Int? { removedFiles == 0 ? nil : removedFiles }

  // MARK: - Savepoints

  /// A number for what was noted so far.
  public func mark() -> Int {
    marks.append(log.mark)
    return marks.count - 1
  }

  /// Forgets what was noted after a savepoint.
  public func rollBack(to mark: Int) {
    log.rollBack(to: marks[mark])
    marks.removeSubrange((mark + 1)...)
  }

  // MARK: - Ends

  /// The number of a row's collection, made where there is none.
  func number(making row: RowKey) throws -> UInt32 {
    if let lastNumber, lastNumber.name == row.collection { return lastNumber.number }
    let number = try numbers[row.collection] ?? writing().collectionNumber(making: row)
    numbers[row.collection] = number
    lastNumber = (row.collection, number)
    return number
  }

  /// The bytes of an end whose collection is made where there is none.
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

  /// The bytes of an end; nil where the collection does not exist, and so has no edge.
  func end(_ end: EdgeEnd) throws -> [UInt8]? {
    guard case .row(let row) = end else { return try self.end(making: end) }
    guard let number = try context.transaction.collectionNumber(of: row.collection) else { return nil }
    var bytes: [UInt8] = []
    row.withBytes { EdgeFormat.append(row: number, $0, to: &bytes) }
    return bytes
  }

  /// The end of bytes; nil where its collection was dropped.
  func end(of bytes: ArraySlice<UInt8>) throws -> EdgeEnd? {
    if let (root, path) = EdgeFormat.fileLocation(bytes) { return .file(root: root, path: path) }
    return try row(of: bytes).map { .row($0) }
  }

  /// The row of an end; nil where it is none, or its collection was dropped.
  func row(of end: ArraySlice<UInt8>) throws -> RowKey? {
    guard let number = EdgeFormat.collection(end) else { return nil }
    return try unsafe context.transaction.rowKey(EdgeFormat.key(end).span.bytes, inCollection: number)
  }

  /// Whether an end is there, now. Files are not looked at.
  func isThere(_ end: ArraySlice<UInt8>) throws -> Bool {
    guard let number = EdgeFormat.collection(end) else { return true }
    return try unsafe context.transaction.contains(EdgeFormat.key(end).span.bytes, inCollection: number)
  }

  // MARK: - Nodes

  /// What is known of the rows of a collection.
  enum NodeKind {
    /// They declare edges.
    case declaring(NodeAccess)
    /// They declare none, and none is kept that they did.
    case plain
    /// They declare none, and some may be kept that they did.
    case formerlyDeclaring
    /// The program has not defined it.
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
    // In a build nothing of it is kept.
    guard try isComplete else { return .plain }
    let range = StorageRange(prefix: EdgeFormat.prefix(ofCollection: number))
    return try families.declared.from.first(in: range) == nil ? .plain : .formerlyDeclaring
  }

  /// Whether the edges of all rows are known: rules are applied only then.
  var isComplete: Bool { get throws { try families.declared.from.isReady && families.declared.to.isReady } }
}
