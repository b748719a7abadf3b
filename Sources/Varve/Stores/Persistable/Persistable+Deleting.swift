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
    try await Self.store(in: database).deleteIfPresent(id, label: label, durability: durability)
  }

  /// Removes an existing item, and returns it. Throws `.notFound`.
  @discardableResult
  public static func delete(
    _ key: ID, in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Self {
    try await store(in: database).delete(key, label: label, durability: durability)
  }
}
