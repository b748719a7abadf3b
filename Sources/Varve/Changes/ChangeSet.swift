public import Foundation

/// What one commit changed: made of it, told to observers behind it, the same for all.
///
/// A row that was set and removed again in one transaction is among the removed; one that was removed and set
/// again among the changed. After all rows of a collection were removed, those that were set behind that are
/// among the inserted, and the collection among the cleared: who follows along takes away first, and then adds.
public struct ChangeSet: Sendable {
  /// The place of the commit in the order of all commits.
  public let version: CommitVersion
  /// What the transaction was called.
  public let label: String?
  /// Whether all rows of all collections were removed.
  public let isEverythingCleared: Bool
  private let collections: [String: Changes]
  private let custom: StoredCustom?

  struct Changes: Sendable {
    var isCleared = false
    /// By the encoded key.
    var rows: [[UInt8]: RowState] = [:]
  }

  struct StoredCustom: Sendable {
    let bytes: [UInt8]
    let coding: ObjectCoding
  }

  init(
    version: CommitVersion, label: String?, isEverythingCleared: Bool, collections: [String: Changes],
    custom: StoredCustom?
  ) {
    self.version = version
    self.label = label
    self.isEverythingCleared = isEverythingCleared
    self.collections = collections
    self.custom = custom
  }

  /// Of a transaction that has committed.
  init(_ recorder: ChangeRecorder, version: CommitVersion, label: String?, custom: StoredCustom?) {
    var collections: [String: Changes] = [:]
    for changes in recorder.collections.values {
      let prefix = changes.info.prefix.count
      var rows: [[UInt8]: RowState] = [:]
      rows.reserveCapacity(changes.rows.count)
      for (key, state) in changes.rows { rows[Array(key.dropFirst(prefix))] = state }
      collections[changes.info.name] = Changes(isCleared: changes.isCleared, rows: rows)
    }
    self.init(
      version: version, label: label, isEverythingCleared: recorder.isEverythingRemoved, collections: collections,
      custom: custom)
  }

  /// The object that the transaction gave it; nil where it gave none. Throws `.decodingFailed`.
  public func customObject<Object: Decodable>(as type: Object.Type = Object.self) throws -> Object? {
    try custom.map { try $0.coding.decodeStandalone(type, $0.bytes) }
  }

  // MARK: - Queries

  /// The collections of which something changed, in order of their names.
  public var changedCollections: [String] { collections.keys.sorted() }

  /// The collections all of whose rows were removed, in order of their names.
  public var clearedCollections: [String] { collections.filter(\.value.isCleared).keys.sorted() }

  /// Whether anything of a collection changed.
  public func hasChange(in collection: String) -> Bool { isEverythingCleared || collections[collection] != nil }

  /// Whether all rows of a collection were removed.
  public func isCleared(_ collection: String) -> Bool {
    isEverythingCleared || collections[collection]?.isCleared ?? false
  }

  /// Whether an object of a collection was inserted, changed, touched or removed.
  public func hasObjectChange(in collection: String) -> Bool { has(collection) { $0.concernsObject } }

  /// Whether metadata of a collection was inserted, changed, touched or removed.
  public func hasMetadataChange(in collection: String) -> Bool { has(collection) { $0.concernsMetadata } }

  /// Whether a row changed in any way.
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

  /// Whether any of several rows changed in any way.
  public func hasChange<Key: KeyCodable>(anyOf keys: some Sequence<Key>, in collection: String) throws -> Bool {
    try keys.contains { try hasChange(key: $0, in: collection) }
  }

  /// The rows of a collection that are new.
  public func insertedKeys(in collection: String) -> [RowKey] { keys(collection) { $0.isInserted && !$0.isRemoved } }

  /// The rows of a collection that were removed one by one, those that had been inserted by the same transaction
  /// too. A cleared collection does not list its rows.
  public func removedKeys(in collection: String) -> [RowKey] { keys(collection) { $0.isRemoved } }

  /// The rows of a collection that are there and were inserted, changed or touched.
  public func changedKeys(in collection: String) -> [RowKey] { keys(collection) { !$0.isRemoved } }

  /// All rows of all collections that were inserted, changed, touched or removed one by one.
  public var allKeys: [RowKey] { changedCollections.flatMap { keys($0) { _ in true } } }

  private func has(_ collection: String, _ isMeant: (RowState) -> Bool) -> Bool {
    if isCleared(collection) { return true }
    return collections[collection]?.rows.values.contains(where: isMeant) ?? false
  }

  private func has(_ key: some KeyCodable, _ collection: String, _ isMeant: (RowState) -> Bool) throws -> Bool {
    if isCleared(collection) { return true }
    return collections[collection]?.rows[try key.encoded()].map(isMeant) ?? false
  }

  private func keys(_ collection: String, _ isMeant: (RowState) -> Bool) -> [RowKey] {
    let rows = collections[collection]?.rows ?? [:]
    return rows.filter { isMeant($0.value) }.keys.sorted(by: ByteOrder.precedes).map {
      RowKey(collection: collection, bytes: $0)
    }
  }
}
