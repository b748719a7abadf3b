/// Writes items, each with its metadata: an item whose `metadata` is nil has none in the database afterwards. Each
/// method throws `.unsupportedVersion`, without any change, if a newer program has written the row.
extension Persistable {
  // MARK: - Inside a transaction

  /// Sets the item, whether it exists or not. Returns the previous one, or nil if there was none or it cannot be
  /// decoded.
  @discardableResult
  public func persist(in tx: WriteTransaction) throws -> Self? {
    let access = Self.access(tx)
    return try access.persist(self, id, access.own, tx)
  }

  /// Sets the item, which must not exist. Throws `.alreadyExists`.
  public func insert(in tx: WriteTransaction) throws {
    let access = Self.access(tx)
    try access.insert(self, id, access.own, tx)
  }

  /// Sets the item, which must exist. Returns the previous one. Throws `.notFound`.
  @discardableResult
  public func update(in tx: WriteTransaction) throws -> Self {
    let access = Self.access(tx)
    return try access.update(self, id, access.own, tx)
  }

  /// Changes an existing item. Returns the new one; if a rule of the definition removes it (`sanitized`), the result is
  /// that of `body`.
  ///
  /// Throws `.notFound`, `.invalidArgument` if `body` changes the `id`, and what `body` throws.
  @discardableResult
  public static func modify(
    _ key: ID, in tx: WriteTransaction, _ body: (inout Self) throws -> Void
  ) throws -> Self {
    let access = access(tx)
    return try access.modify(key, tx, check: { try access.requireIdentifier(of: $0, key) }, body)
  }

  // MARK: - In a transaction of its own

  /// Sets the item, whether it exists or not. Returns the previous one, or nil if there was none or it cannot be
  /// decoded.
  @discardableResult
  public func persist(
    in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Self? {
    try await database.write(label: label, durability: durability) { tx in try persist(in: tx) }
  }

  /// Sets the item, which must not exist. Throws `.alreadyExists`.
  public func insert(
    in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws {
    try await database.write(label: label, durability: durability) { tx in try insert(in: tx) }
  }

  /// Sets the item, which must exist. Returns the previous one. Throws `.notFound`.
  @discardableResult
  public func update(
    in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Self {
    try await database.write(label: label, durability: durability) { tx in try update(in: tx) }
  }

  /// Changes an existing item. Returns the new one; if a rule of the definition removes it (`sanitized`), the result is
  /// that of `body`.
  ///
  /// Throws `.notFound`, `.invalidArgument` if `body` changes the `id`, and what `body` throws.
  @discardableResult
  public static func modify(
    _ key: ID, in database: Database, label: String? = nil, durability: StorageDurability? = nil,
    _ body: sending (inout Self) throws -> Void
  ) async throws -> Self {
    try await store(in: database).modify(key, label: label, durability: durability, body)
  }
}

/// Writes several items in one transaction.
extension Sequence where Element: Persistable {
  /// Sets the items atomically, whether they exist or not: if this throws, none is set. The previous ones are not
  /// decoded.
  public func persist(in tx: WriteTransaction) throws {
    let access = Element.access(tx)
    try tx.savepoint { for item in self { try access.set(item, item.id, access.own, tx) } }
  }

  /// Removes those of the items that exist, by their `id`. Returns their number. Nothing is decoded.
  @discardableResult
  public func delete(in tx: WriteTransaction) throws -> Int { try Element.access(tx).delete(ids: map(\.id), tx) }

  // MARK: - In a transaction of its own

  /// Sets the items in one transaction, whether they exist or not: if this throws, none is set. The previous ones are
  /// not decoded.
  public func persist(
    in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws {
    let items = Array(self)
    try await database.write(label: label, durability: durability) { tx in try items.persist(in: tx) }
  }

  /// Removes those of the items that exist, by their `id`, in one transaction. Returns their number. Nothing is
  /// decoded.
  @discardableResult
  public func delete(
    in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Int {
    let ids = map(\.id)
    return try await database.write(label: label, durability: durability) { tx in
      try Element.access(tx).delete(ids: ids, tx)
    }
  }
}
