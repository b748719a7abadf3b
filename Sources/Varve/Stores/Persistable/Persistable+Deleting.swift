/// Removes items, with their metadata. Rows that a newer program has written are removed, too; but `delete` of a single
/// item, which returns it, throws `.unsupportedVersion` for such a row, and `deleteIfPresent` returns nil.
extension Persistable {
  // MARK: - Inside a transaction

  /// Removes the existing item with this `id`. Returns the stored item. Throws `.notFound`.
  @discardableResult
  public func delete(in tx: WriteTransaction) throws -> Self { try Self.delete(id, in: tx) }

  /// Removes the item with this `id`. Returns the stored item, or nil if there was none or it cannot be decoded.
  @discardableResult
  public func deleteIfPresent(in tx: WriteTransaction) throws -> Self? { try Self.deleteIfPresent(id, in: tx) }

  /// Removes an existing item, and returns it. Throws `.notFound`.
  @discardableResult
  public static func delete(_ key: ID, in tx: WriteTransaction) throws -> Self { try access(tx).delete(key, tx) }

  /// Removes an item, and returns it, or nil if there was none or it cannot be decoded.
  @discardableResult
  public static func deleteIfPresent(_ key: ID, in tx: WriteTransaction) throws -> Self? {
    try access(tx).deleteIfPresent(key, tx)
  }

  /// Removes those of several items that exist. Returns their number. Nothing is decoded.
  @discardableResult
  public static func delete(ids keys: some Sequence<ID>, in tx: WriteTransaction) throws -> Int {
    try access(tx).delete(ids: keys, tx)
  }

  /// Removes the items whose keys are in a range. Returns their number. Nothing is decoded.
  @discardableResult
  public static func delete(_ range: some KeyBounds<ID> & Sendable, in tx: WriteTransaction) throws -> Int {
    try access(tx).delete(ScanRange(range), tx)
  }

  /// Removes all items: `Book.delete(..., in: tx)`. Returns their number. Complexity: as for ``Store/delete(_:in:)``.
  @discardableResult
  public static func delete(_ all: UnboundedRange, in tx: WriteTransaction) throws -> Int {
    try access(tx).deleteAll(tx)
  }

  // MARK: - In a transaction of its own

  /// Removes the existing item with this `id`. Returns the stored item. Throws `.notFound`.
  @discardableResult
  public func delete(
    in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Self {
    try await Self.delete(id, in: database, label: label, durability: durability)
  }

  /// Removes the item with this `id`. Returns the stored item, or nil if there was none or it cannot be decoded.
  @discardableResult
  public func deleteIfPresent(
    in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Self? {
    try await Self.deleteIfPresent(id, in: database, label: label, durability: durability)
  }

  /// Removes an existing item, and returns it. Throws `.notFound`.
  @discardableResult
  public static func delete(
    _ key: ID, in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Self {
    try await store(in: database).delete(key, label: label, durability: durability)
  }

  /// Removes an item, and returns it, or nil if there was none or it cannot be decoded.
  @discardableResult
  public static func deleteIfPresent(
    _ key: ID, in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Self? {
    try await store(in: database).deleteIfPresent(key, label: label, durability: durability)
  }

  /// Removes those of several items that exist. Returns their number. Nothing is decoded.
  @discardableResult
  public static func delete(
    ids keys: some Sequence<ID> & Sendable, in database: Database, label: String? = nil,
    durability: StorageDurability? = nil
  ) async throws -> Int {
    try await store(in: database).delete(ids: keys, label: label, durability: durability)
  }

  /// Removes the items whose keys are in a range. Returns their number. Nothing is decoded.
  @discardableResult
  public static func delete(
    _ range: some KeyBounds<ID> & Sendable, in database: Database, label: String? = nil,
    durability: StorageDurability? = nil
  ) async throws -> Int {
    try await store(in: database).delete(range, label: label, durability: durability)
  }

  /// Removes all items: `Book.delete(..., in: database)`. Returns their number.
  @discardableResult
  public static func delete(
    _ all: UnboundedRange, in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Int {
    try await store(in: database).delete(..., label: label, durability: durability)
  }
}
