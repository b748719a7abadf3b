public import Varve

/// A row as an index has it: an entry with a value and the key of the row.
///
/// It belongs to the snapshot of its inspector, and may be used as long as the inspector is open. Safe from any thread.
public struct InspectedIndexRow: Sendable {
  /// The value as `KeyText` writes it, or the bytes of an entry that can't be read.
  public let value: String
  /// The key of the row, or `nil` if the entry can't be read.
  public let key: RowKey?
  /// The position of the entry in the index.
  public let position: InspectedPosition
  private let inspector: DatabaseInspector
  private let index: InspectedIndex
  private let collection: InspectedCollection

  init(_ inspector: DatabaseInspector, _ index: InspectedIndex, _ collection: InspectedCollection, entry: [UInt8]) {
    self.inspector = inspector
    self.index = index
    self.collection = collection
    position = InspectedPosition(.rows(of: index), entry)
    if let parts = try? IndexFormat.parts(ofEntry: entry) {
      value = KeyText.text(of: parts.value)
      key = RowKey(collection: collection.name, bytes: parts.row)
    } else {
      value = KeyText.text(of: entry)
      key = nil
    }
  }

  /// Returns the row.
  ///
  /// Throws `.corruption` if the entry can't be read, or if its row does not exist, and `.storage`.
  public func row() throws -> InspectedRow {
    guard let key else {
      throw DatabaseError(
        .corruption, "index \"\(index.name)\": the entry \(value) is not readable", collection: collection.name)
    }
    if let row = try inspector.row(key: key.bytes, in: collection) { return row }
    throw DatabaseError(
      .corruption, "index \"\(index.name)\" has it for \(value), and the row does not exist",
      collection: collection.name, key: key.text)
  }
}

extension DatabaseInspector {
  /// Returns the rows of an index in the order of its values, from the first to the last or in reverse: all of them, or
  /// those in a range from `InspectedIndex.range`; and after a position, if one is given.
  ///
  /// A row with several values comes once for each of them.
  ///
  /// Throws `.notReady` for an index that does not have all rows; `.invalidArgument` for a position of another list;
  /// `.cursorExpired` for one in an index whose values had another type; `.corruption` if the record of the collection
  /// can't be read.
  public func rows(
    of index: InspectedIndex, range: StorageRange? = nil, isReverse: Bool = false,
    after position: InspectedPosition? = nil
  ) throws -> InspectedList<InspectedIndexRow> {
    try index.requireComplete("so its rows can't be listed")
    let name = "the index \"\(index.name)\" of the collection \"\(index.collection)\""
    let key = try position.map { try InspectedListID.rows(of: index).key(of: $0, name) }
    let collection = try knownCollection(index.collection)
    var cursor: FamilyCursor?
    if let entries = index.entries, collection != nil {
      let range = (range ?? StorageRange()).following(key, isReverse: isReverse)
      cursor = FamilyCursor(range, in: entries, of: snapshot, isReverse: isReverse, keysOnly: true)
    }
    return InspectedList<InspectedIndexRow>(cursor, position: { $0.position }) { cursor in
      guard let collection, let entry = try cursor.nextKey() else { return nil }
      return InspectedIndexRow(self, index, collection, entry: entry)
    }
  }

  /// Returns the index with a name: of a collection, or of the only collection that has one of that name.
  ///
  /// Throws `.notFound`, with the names of the indexes that exist, if no index has it; `.invalidArgument` if several
  /// collections have one; `.corruption` if a record can't be read. Complexity: that of `indexes(of:fault:)`.
  public func index(_ name: String, of collection: String? = nil) throws -> InspectedIndex {
    let all = try indexes(of: collection) { throw $0 }
    let found = all.filter { $0.name == IndexFormat.composed(name) }
    if found.count == 1 { return found[0] }
    if found.count > 1 {
      throw DatabaseError(
        .invalidArgument,
        "several collections have an index \"\(name)\": \(found.map(\.collection).joined(separator: ", ")); name the collection"
      )
    }
    let known = all.map { "\"\($0.name)\" of \($0.collection)" }.joined(separator: ", ")
    throw DatabaseError(
      .notFound, "no index is named \"\(name)\"; \(known.isEmpty ? "there are none" : "there are \(known)")",
      collection: collection)
  }
}

extension InspectedIndex {
  /// Throws `.notReady` if the index does not have all rows. `consequence` ends the message.
  func requireComplete(_ consequence: String) throws {
    let reason: String
    switch state {
    case .ready, .collided: return
    case .building: reason = "is being built; the build continues when the program opens the database"
    case .stale: reason = "has missed changes; it catches up when the program opens the database"
    case .failed(let message): reason = "could not be built (\(message)); the program builds it again"
    }
    throw DatabaseError(.notReady, "index \"\(name)\" \(reason), \(consequence)", collection: collection)
  }

  /// Returns the range of the entries with a value given as text, as `KeyText` writes it for the type of the index's
  /// values. The quotation marks are optional for strings, and the first parts of a compound value are enough.
  ///
  /// Throws `.invalidKey` if the text is not such a value.
  public func range(equalTo value: String) throws -> StorageRange {
    try reading {
      let parts = try KeyTextReader.parts(value, keyForm)
      return StorageRange(lower: parts, upper: KeyRange.end(ofParts: parts))
    }
  }

  /// Returns the range of the entries whose values are given as texts: from a value (included) to a value (excluded) in
  /// the order of the index, or all values with a prefix.
  ///
  /// Of compound values the first parts are enough. A prefix is text for strings, and the first parts for compound
  /// values. Throws `.invalidKey`, and `.invalidArgument` for a prefix of values that have none.
  public func range(from lower: String?, to upper: String?, prefix: String? = nil) throws -> StorageRange {
    try reading {
      if let prefix { return try keyForm.range(prefix: prefix, after: [], keyType) }
      return StorageRange(
        lower: try lower.map { try KeyTextReader.parts($0, keyForm) } ?? [],
        upper: try upper.map { try KeyTextReader.parts($0, keyForm) })
    }
  }

  private var keyForm: KeyForm { KeyForm(keyType) }

  /// Adds the index to the errors of texts.
  private func reading(_ body: () throws -> StorageRange) throws -> StorageRange {
    do { return try body() } catch let error as DatabaseError {
      throw DatabaseError(
        error.code, "index \"\(name)\" of values that are \(keyType): \(error.message)", collection: collection,
        key: error.key)
    }
  }
}
