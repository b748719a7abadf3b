/// Queries of a change set.
///
/// If a collection was cleared, every query about it, and about any of its keys, returns true, because it is not known
/// any more whether a key existed.
extension ChangeSet {
  // MARK: - Collections

  /// The names of the changed collections, in ascending order.
  public var changedCollections: [String] { collections.keys.sorted() }

  /// The names of the collections all of whose rows were removed, in ascending order. If everything was cleared, these
  /// are the collections that had rows.
  public var clearedCollections: [String] { collections.filter(\.value.isCleared).keys.sorted() }

  /// Returns whether all rows of a collection were removed.
  public func isCleared(_ collection: String) -> Bool {
    isEverythingCleared || collections[collection]?.isCleared ?? false
  }

  /// Returns whether anything in a collection changed.
  public func hasChange(in collection: String) -> Bool { isEverythingCleared || collections[collection] != nil }

  /// Returns whether an object of a collection was inserted, changed, touched or removed.
  public func hasObjectChange(in collection: String) -> Bool { has(collection) { $0.concernsObject } }

  /// Returns whether metadata of a collection were inserted, changed, touched or removed.
  public func hasMetadataChange(in collection: String) -> Bool { has(collection) { $0.concernsMetadata } }

  private func has(_ collection: String, _ isMeant: (RowState) -> Bool) -> Bool {
    if isCleared(collection) { return true }
    return collections[collection]?.states.pairs.contains { isMeant($0.value) } ?? false
  }

  // MARK: - Rows

  /// Returns whether a row changed in any way. Throws `.invalidKey` for a value that can't be a key.
  public func hasChange(key: some KeyCodable, in collection: String) throws -> Bool {
    try has(key, collection) { _ in true }
  }

  /// Returns whether the object of a row was inserted, changed, touched or removed.
  public func hasObjectChange(key: some KeyCodable, in collection: String) throws -> Bool {
    try has(key, collection) { $0.concernsObject }
  }

  /// Returns whether the metadata of a row were inserted, changed, touched or removed.
  public func hasMetadataChange(key: some KeyCodable, in collection: String) throws -> Bool {
    try has(key, collection) { $0.concernsMetadata }
  }

  /// Returns whether any of several rows changed in any way. For no keys, the result is false.
  public func hasChange<Key: KeyCodable>(anyOf keys: some Sequence<Key>, in collection: String) throws -> Bool {
    try keys.contains { try hasChange(key: $0, in: collection) }
  }

  /// Returns whether the object of any of several rows was inserted, changed, touched or removed.
  public func hasObjectChange<Key: KeyCodable>(
    anyOf keys: some Sequence<Key>, in collection: String
  ) throws -> Bool {
    try keys.contains { try hasObjectChange(key: $0, in: collection) }
  }

  /// Returns whether the metadata of any of several rows were inserted, changed, touched or removed.
  public func hasMetadataChange<Key: KeyCodable>(
    anyOf keys: some Sequence<Key>, in collection: String
  ) throws -> Bool {
    try keys.contains { try hasMetadataChange(key: $0, in: collection) }
  }

  /// Returns whether the row with a row key changed in any way.
  public func hasChange(_ row: RowKey) -> Bool {
    isCleared(row.collection) || collections[row.collection]?.state(row.bytes) != nil
  }

  /// Returns whether the object of the row with a row key was inserted, changed, touched or removed.
  public func hasObjectChange(_ row: RowKey) -> Bool { has(row) { $0.concernsObject } }

  /// Returns whether the metadata of the row with a row key were inserted, changed, touched or removed.
  public func hasMetadataChange(_ row: RowKey) -> Bool { has(row) { $0.concernsMetadata } }

  private func has(_ row: RowKey, _ isMeant: (RowState) -> Bool) -> Bool {
    isCleared(row.collection) || collections[row.collection]?.state(row.bytes).map(isMeant) ?? false
  }

  private func has(_ key: some KeyCodable, _ collection: String, _ isMeant: (RowState) -> Bool) throws -> Bool {
    if isCleared(collection) { return true }
    guard let rows = collections[collection] else { return false }
    return rows.state(try key.encoded()).map(isMeant) ?? false
  }

  // MARK: - Keys

  /// Returns the inserted rows of a collection, in ascending order of their keys. Complexity, also of the following
  /// methods: O(n log n) for the collection's n changed rows.
  public func insertedKeys(in collection: String) -> [RowKey] { keys(collection) { $0.isInserted && !$0.isRemoved } }

  /// Returns the rows of a collection that were removed one by one, including those that the same transaction had
  /// inserted, in ascending order of their keys. For a cleared collection, the rows that it had before are not listed.
  public func removedKeys(in collection: String) -> [RowKey] { keys(collection) { $0.isRemoved } }

  /// Returns the existing rows of a collection that were inserted, changed or touched, in ascending order of their
  /// keys.
  public func changedKeys(in collection: String) -> [RowKey] { keys(collection) { !$0.isRemoved } }

  /// Returns the rows of a collection that were inserted, changed, touched or removed one by one, in ascending order of
  /// their keys.
  public func keys(in collection: String) -> [RowKey] { keys(collection) { _ in true } }

  /// All rows that were inserted, changed, touched or removed one by one, ordered by the name of the collection and
  /// then by key.
  public var allKeys: [RowKey] { changedCollections.flatMap { keys(in: $0) } }

  private func keys(_ collection: String, _ isMeant: (RowState) -> Bool) -> [RowKey] {
    guard let rows = collections[collection] else { return [] }
    // All keys begin with the same prefix, so they have the same order without it.
    return rows.states.pairs.filter { isMeant($0.value) }.map(\.key).sorted(by: ByteOrder.precedes).map {
      RowKey(collection: collection, bytes: rows.key($0))
    }
  }
}
