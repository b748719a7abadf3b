/// Removing items, with their metadata. What a newer program has written is removed too; `delete` of one item, which
/// returns it, throws `.unsupportedVersion` for such a row, and `deleteIfPresent` returns nil.
extension Persistable {
  // MARK: - Inside of a transaction

  /// Removes the item, found by its `id`, which is there. Returns what was stored. Throws `.notFound`.
  @discardableResult
  public func delete(in tx: WriteTransaction) throws -> Self { try Self.delete(id, in: tx) }

  /// Removes the item, found by its `id`. Returns what was stored; nil where there is none, or it can't be decoded.
  @discardableResult
  public func deleteIfPresent(in tx: WriteTransaction) throws -> Self? { try Self.deleteIfPresent(id, in: tx) }

  /// Removes an item that is there, and returns it. Throws `.notFound`.
  @discardableResult
  public static func delete(_ key: ID, in tx: WriteTransaction) throws -> Self { try access(tx).delete(key, tx) }

  /// Removes an item, and returns it; nil where there is none, or it can't be decoded.
  @discardableResult
  public static func deleteIfPresent(_ key: ID, in tx: WriteTransaction) throws -> Self? {
    try access(tx).deleteIfPresent(key, tx)
  }

  /// Removes those of several items that are there. Returns how many. Nothing is decoded.
  @discardableResult
  public static func delete(ids keys: some Sequence<ID>, in tx: WriteTransaction) throws -> Int {
    try access(tx).delete(ids: keys, tx)
  }

  /// Removes the items whose keys are in a range. Returns how many. Nothing is decoded.
  @discardableResult
  public static func delete(_ range: some KeyBounds<ID> & Sendable, in tx: WriteTransaction) throws -> Int {
    try access(tx).delete(ScanRange(range), tx)
  }

  /// Removes all items: `Book.delete(..., in: tx)`. Returns how many there were. Complexity: as of
  /// ``Store/delete(_:in:)``.
  @discardableResult
  public static func delete(_ all: UnboundedRange, in tx: WriteTransaction) throws -> Int {
    try access(tx).deleteAll(tx)
  }

  // MARK: - By itself

  /// Removes the item, found by its `id`, which is there. Returns what was stored. Throws `.notFound`.
  @discardableResult
  public func delete(
    in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Self {
    try await Self.delete(id, in: database, label: label, durability: durability)
  }

  /// Removes the item, found by its `id`. Returns what was stored; nil where there is none, or it can't be decoded.
  @discardableResult
  public func deleteIfPresent(
    in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Self? {
    try await Self.deleteIfPresent(id, in: database, label: label, durability: durability)
  }

  /// Removes an item that is there, and returns it. Throws `.notFound`.
  @discardableResult
  public static func delete(
    _ key: ID, in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Self {
    try await store(in: database).delete(key, label: label, durability: durability)
  }

  /// Removes an item, and returns it; nil where there is none, or it can't be decoded.
  @discardableResult
  public static func deleteIfPresent(
    _ key: ID, in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Self? {
    try await store(in: database).deleteIfPresent(key, label: label, durability: durability)
  }

  /// Removes those of several items that are there. Returns how many. Nothing is decoded.
  @discardableResult
  public static func delete(
    ids keys: some Sequence<ID> & Sendable, in database: Database, label: String? = nil,
    durability: StorageDurability? = nil
  ) async throws -> Int {
    try await store(in: database).delete(ids: keys, label: label, durability: durability)
  }

  /// Removes the items whose keys are in a range. Returns how many. Nothing is decoded.
  @discardableResult
  public static func delete(
    _ range: some KeyBounds<ID> & Sendable, in database: Database, label: String? = nil,
    durability: StorageDurability? = nil
  ) async throws -> Int {
    try await store(in: database).delete(range, label: label, durability: durability)
  }

  /// Removes all items: `Book.delete(..., in: database)`. Returns how many there were.
  @discardableResult
  public static func delete(
    _ all: UnboundedRange, in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Int {
    try await store(in: database).delete(..., label: label, durability: durability)
  }
}
