/// Setting items, each with its metadata: one whose `metadata` is nil has none in the database afterwards. Each call
/// throws `.unsupportedVersion` where a newer program has written the row, and replaces nothing.
extension Persistable {
  // MARK: - Inside of a transaction

  /// Sets the item, new or not. Returns what was there, if it can be decoded.
  @discardableResult
  public func persist(in tx: WriteTransaction) throws -> Self? {
    let access = Self.access(tx)
    return try access.persist(self, id, access.own, tx)
  }

  /// Sets the item, which is not there. Throws `.alreadyExists`.
  public func insert(in tx: WriteTransaction) throws {
    let access = Self.access(tx)
    try access.insert(self, id, access.own, tx)
  }

  /// Sets the item, which is there. Returns what was there. Throws `.notFound`.
  @discardableResult
  public func update(in tx: WriteTransaction) throws -> Self {
    let access = Self.access(tx)
    return try access.update(self, id, access.own, tx)
  }

  /// Changes an item that is there. Returns what it is then; where a rule of the definition removes it (`sanitized`), as
  /// `body` left it.
  ///
  /// Throws `.notFound`, `.invalidArgument` where `body` gives it another `id`, and what `body` throws.
  @discardableResult
  public static func modify(
    _ key: ID, in tx: WriteTransaction, _ body: (inout Self) throws -> Void
  ) throws -> Self {
    let access = access(tx)
    return try access.modify(key, tx, check: { try access.requireIdentifier(of: $0, key) }, body)
  }

  /// Sets the metadata of an item that is there; nil: it has none then. Throws `.notFound`.
  public static func setMetadata(_ metadata: Metadata?, of key: ID, in tx: WriteTransaction) throws {
    try access(tx).setMetadata(metadata, key, tx)
  }

  // MARK: - By itself

  /// Sets the item, new or not. Returns what was there, if it can be decoded.
  @discardableResult
  public func persist(
    in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Self? {
    try await database.write(label: label, durability: durability) { tx in try persist(in: tx) }
  }

  /// Sets the item, which is not there. Throws `.alreadyExists`.
  public func insert(
    in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws {
    try await database.write(label: label, durability: durability) { tx in try insert(in: tx) }
  }

  /// Sets the item, which is there. Returns what was there. Throws `.notFound`.
  @discardableResult
  public func update(
    in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Self {
    try await database.write(label: label, durability: durability) { tx in try update(in: tx) }
  }

  /// Changes an item that is there. Returns what it is then; where a rule of the definition removes it (`sanitized`), as
  /// `body` left it.
  ///
  /// Throws `.notFound`, `.invalidArgument` where `body` gives it another `id`, and what `body` throws.
  @discardableResult
  public static func modify(
    _ key: ID, in database: Database, label: String? = nil, durability: StorageDurability? = nil,
    _ body: @Sendable (inout Self) throws -> Void
  ) async throws -> Self {
    try await store(in: database).modify(key, label: label, durability: durability, body)
  }

  /// Sets the metadata of an item that is there; nil: it has none then. Throws `.notFound`.
  public static func setMetadata(
    _ metadata: Metadata?, of key: ID, in database: Database, label: String? = nil,
    durability: StorageDurability? = nil
  ) async throws {
    try await store(in: database).setMetadata(metadata, of: key, label: label, durability: durability)
  }
}

/// The same for several items, in one transaction.
extension Sequence where Element: Persistable {
  /// Sets the items, new or not: all of them, or where it throws none. What was there is not decoded.
  public func persist(in tx: WriteTransaction) throws {
    let access = Element.access(tx)
    try tx.savepoint { for item in self { try access.set(item, item.id, access.own, tx) } }
  }

  /// Removes those of the items that are there, found by their `id`. Returns how many. Nothing is decoded.
  @discardableResult
  public func delete(in tx: WriteTransaction) throws -> Int { try Element.delete(ids: map(\.id), in: tx) }
}

extension Sequence where Element: Persistable, Self: Sendable {
  /// Sets the items in one transaction, new or not: all of them, or where it throws none. What was there is not decoded.
  public func persist(
    in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws {
    try await database.write(label: label, durability: durability) { tx in try persist(in: tx) }
  }

  /// Removes those of the items that are there in one transaction, found by their `id`. Returns how many. Nothing is
  /// decoded.
  @discardableResult
  public func delete(
    in database: Database, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Int {
    try await database.write(label: label, durability: durability) { tx in try delete(in: tx) }
  }
}
