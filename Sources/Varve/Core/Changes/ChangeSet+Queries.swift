/// Asking what changed.
///
/// Where a collection was cleared, every question about it, and about any of its keys, is answered with yes: whether
/// a key had been there can't be known any more.
extension ChangeSet {
  // MARK: - Collections

  /// The collections of which something changed, in order of their names.
  public var changedCollections: [String] { collections.keys.sorted() }

  /// The collections all of whose rows were removed, in order of their names: of all, those that had any.
  public var clearedCollections: [String] { collections.filter(\.value.isCleared).keys.sorted() }

  /// Whether all rows of a collection were removed.
  public func isCleared(_ collection: String) -> Bool {
    isEverythingCleared || collections[collection]?.isCleared ?? false
  }

  /// Whether anything of a collection changed.
  public func hasChange(in collection: String) -> Bool { isEverythingCleared || collections[collection] != nil }

  /// Whether an object of a collection was inserted, changed, touched or removed.
  public func hasObjectChange(in collection: String) -> Bool { has(collection) { $0.concernsObject } }

  /// Whether metadata of a collection was inserted, changed, touched or removed.
  public func hasMetadataChange(in collection: String) -> Bool { has(collection) { $0.concernsMetadata } }

  private func has(_ collection: String, _ isMeant: (RowState) -> Bool) -> Bool {
    if isCleared(collection) { return true }
    return collections[collection]?.states.pairs.contains { isMeant($0.value) } ?? false
  }

  // MARK: - Rows

  /// Whether a row changed in any way. Throws `.invalidKey` for a value that can't be a key.
  public func hasChange(key: some KeyCodable, in collection: String) throws -> Bool {
    try has(key, collection) { _ in true }
  }

  /// Whether the object of a row was inserted, changed, touched or removed.
  public func hasObjectChange(key: some KeyCodable, in collection: String) throws -> Bool {
    try has(key, collection) { $0.concernsObject }
  }

  /// Whether the metadata of a row was inserted, changed, touched or removed.
  public func hasMetadataChange(key: some KeyCodable, in collection: String) throws -> Bool {
    try has(key, collection) { $0.concernsMetadata }
  }

  /// Whether any of several rows changed in any way. Of no keys, none has.
  public func hasChange<Key: KeyCodable>(anyOf keys: some Sequence<Key>, in collection: String) throws -> Bool {
    try keys.contains { try hasChange(key: $0, in: collection) }
  }

  /// Whether the object of any of several rows was inserted, changed, touched or removed.
  public func hasObjectChange<Key: KeyCodable>(
    anyOf keys: some Sequence<Key>, in collection: String
  ) throws -> Bool {
    try keys.contains { try hasObjectChange(key: $0, in: collection) }
  }

  /// Whether the metadata of any of several rows was inserted, changed, touched or removed.
  public func hasMetadataChange<Key: KeyCodable>(
    anyOf keys: some Sequence<Key>, in collection: String
  ) throws -> Bool {
    try keys.contains { try hasMetadataChange(key: $0, in: collection) }
  }

  /// Whether a row changed in any way, by what names it.
  public func hasChange(_ row: RowKey) -> Bool {
    isCleared(row.collection) || collections[row.collection]?.state(row.bytes) != nil
  }

  private func has(_ key: some KeyCodable, _ collection: String, _ isMeant: (RowState) -> Bool) throws -> Bool {
    if isCleared(collection) { return true }
    guard let rows = collections[collection] else { return false }
    return rows.state(try key.encoded()).map(isMeant) ?? false
  }

  // MARK: - Keys

  /// The rows of a collection that are new, in order of their keys. Complexity, of this and the next: O(n log n) for
  /// the collection's n changed rows.
  public func insertedKeys(in collection: String) -> [RowKey] { keys(collection) { $0.isInserted && !$0.isRemoved } }

  /// The rows of a collection that were removed one by one, those that had been inserted by the same transaction
  /// too, in order of their keys. A cleared collection does not list what it had.
  public func removedKeys(in collection: String) -> [RowKey] { keys(collection) { $0.isRemoved } }

  /// The rows of a collection that are there and were inserted, changed or touched, in order of their keys.
  public func changedKeys(in collection: String) -> [RowKey] { keys(collection) { !$0.isRemoved } }

  /// The rows of a collection that were inserted, changed, touched or removed one by one, in order of their keys.
  public func keys(in collection: String) -> [RowKey] { keys(collection) { _ in true } }

  /// All rows that were inserted, changed, touched or removed one by one: by collection, in order of the names, and
  /// then by key.
  public var allKeys: [RowKey] { changedCollections.flatMap { keys(in: $0) } }

  private func keys(_ collection: String, _ isMeant: (RowState) -> Bool) -> [RowKey] {
    guard let rows = collections[collection] else { return [] }
    // All begin with the same prefix: without it they are in the same order.
    return rows.states.pairs.filter { isMeant($0.value) }.map(\.key).sorted(by: ByteOrder.precedes).map {
      RowKey(collection: collection, bytes: rows.key($0))
    }
  }
}
