/// Removes instances, with their metadata.
///
/// Rows that a newer program has written, and which therefore cannot be decoded, are removed, too: `deleteIfPresent`
/// removes such a row and returns nil. Only `delete` of a single instance, which has to return it, throws
/// `.unsupportedVersion`, and the row stays.
extension Store {
  // MARK: - Inside a transaction

  /// Removes an existing instance, and returns it. Throws `.notFound`.
  @discardableResult
  public func delete(_ id: Identifier, in tx: WriteTransaction) throws -> Instance { try access.delete(id, tx) }

  /// Removes an instance, and returns it, or nil if there was none or it cannot be decoded.
  @discardableResult
  public func deleteIfPresent(_ id: Identifier, in tx: WriteTransaction) throws -> Instance? {
    try access.deleteIfPresent(id, tx)
  }

  /// Removes those of several instances that exist. Returns their number. Nothing is decoded, so that instances that
  /// cannot be decoded are removed, too.
  @discardableResult
  public func delete(ids: some Sequence<Identifier>, in tx: WriteTransaction) throws -> Int {
    try access.delete(ids: ids, tx)
  }

  /// Removes the instances whose identifiers are in a range: `"a"..<"b"`, `5...`, `...id`, `id..>`. Returns their
  /// number. Nothing is decoded, so that instances that cannot be decoded are removed, too.
  @discardableResult
  public func delete(_ range: some KeyBounds<Identifier> & Sendable, in tx: WriteTransaction) throws -> Int {
    try access.delete(ScanRange(range), tx)
  }

  /// Removes all instances: `store.delete(..., in: tx)`. Returns their number.
  ///
  /// Complexity: O(1), apart from what this transaction itself wrote, if each extension that is notified of removals in
  /// the collection can handle them as a whole (`ExtensionTransaction.removesAll`), or if no extension is notified;
  /// otherwise O(n) in the rows of the collection.
  @discardableResult
  public func delete(_ all: UnboundedRange, in tx: WriteTransaction) throws -> Int { try access.deleteAll(tx) }

  // MARK: - In a transaction of its own

  /// Removes an existing instance, and returns it. Throws `.notFound`.
  @discardableResult
  public func delete(_ id: Identifier, label: String? = nil, durability: StorageDurability? = nil) async throws
    -> Instance
  {
    try await database.write(label: label, durability: durability) { tx in try delete(id, in: tx) }
  }

  /// Removes an instance, and returns it, or nil if there was none or it cannot be decoded.
  @discardableResult
  public func deleteIfPresent(_ id: Identifier, label: String? = nil, durability: StorageDurability? = nil) async throws
    -> Instance?
  {
    try await database.write(label: label, durability: durability) { tx in try deleteIfPresent(id, in: tx) }
  }

  /// Removes those of several instances that exist. Returns their number. Nothing is decoded, so that instances that
  /// cannot be decoded are removed, too.
  @discardableResult
  public func delete(
    ids: sending some Sequence<Identifier>, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Int {
    let ids = AwaitedElements(ids)
    return try await database.write(label: label, durability: durability) { tx in try delete(ids: ids, in: tx) }
  }

  /// Removes the instances whose identifiers are in a range: `"a"..<"b"`, `5...`, `...id`, `id..>`. Returns their
  /// number. Nothing is decoded, so that instances that cannot be decoded are removed, too.
  @discardableResult
  public func delete(
    _ range: some KeyBounds<Identifier> & Sendable, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Int {
    let range = ScanRange(range)
    return try await database.write(label: label, durability: durability) { tx in try access.delete(range, tx) }
  }

  /// Removes all instances: `store.delete(...)`. Returns their number. Complexity: see the form in a transaction.
  @discardableResult
  public func delete(_ all: UnboundedRange, label: String? = nil, durability: StorageDurability? = nil) async throws
    -> Int
  {
    try await database.write(label: label, durability: durability) { tx in try delete(..., in: tx) }
  }
}

extension Store where Format: StoreFormat {
  /// Removes an existing instance, and returns the stored one. Throws `.notFound`.
  @_disfavoredOverload
  @discardableResult
  public func delete(_ instance: Instance, in tx: WriteTransaction) throws -> Instance {
    try access.delete(Format.identifier(of: instance), tx)
  }

  /// Removes an instance, and returns the stored one, or nil if there was none or it cannot be decoded.
  @_disfavoredOverload
  @discardableResult
  public func deleteIfPresent(_ instance: Instance, in tx: WriteTransaction) throws -> Instance? {
    try access.deleteIfPresent(Format.identifier(of: instance), tx)
  }

  /// Removes an existing instance, and returns the stored one. Throws `.notFound`.
  @_disfavoredOverload
  @discardableResult
  public func delete(_ instance: Instance, label: String? = nil, durability: StorageDurability? = nil) async throws
    -> Instance
  {
    try await database.write(label: label, durability: durability) { tx in
      try delete(Format.identifier(of: instance), in: tx)
    }
  }

  /// Removes an instance, and returns the stored one, or nil if there was none or it cannot be decoded.
  @_disfavoredOverload
  @discardableResult
  public func deleteIfPresent(_ instance: Instance, label: String? = nil, durability: StorageDurability? = nil)
    async throws -> Instance?
  {
    try await database.write(label: label, durability: durability) { tx in
      try deleteIfPresent(Format.identifier(of: instance), in: tx)
    }
  }
}
