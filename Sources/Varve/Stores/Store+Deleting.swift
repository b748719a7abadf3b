/// Removing instances, with their metadata. What a newer program has written is removed too; `delete` of one instance,
/// which returns it, throws `.unsupportedVersion` for such a row, and `deleteIfPresent` returns nil.
extension Store {
  // MARK: - Inside of a transaction

  /// Removes an instance that is there, and returns it. Throws `.notFound`.
  @discardableResult
  public func delete(_ id: Identifier, in tx: WriteTransaction) throws -> Instance { try access.delete(id, tx) }

  /// Removes an instance, and returns it; nil where there is none, or it can't be decoded.
  @discardableResult
  public func deleteIfPresent(_ id: Identifier, in tx: WriteTransaction) throws -> Instance? {
    try access.deleteIfPresent(id, tx)
  }

  /// Removes those of several instances that are there. Returns how many. Nothing is decoded, so that what can't be is
  /// removed too.
  @discardableResult
  public func delete(ids: some Sequence<Identifier>, in tx: WriteTransaction) throws -> Int {
    try access.delete(ids: ids, tx)
  }

  /// Removes the instances whose identifiers are in a range: `"a"..<"b"`, `5...`, `...id`, `id..>`. Returns how many. Nothing
  /// is decoded, so that what can't be is removed too.
  @discardableResult
  public func delete(_ range: some KeyBounds<Identifier> & Sendable, in tx: WriteTransaction) throws -> Int {
    try access.delete(ScanRange(range), tx)
  }

  /// Removes all instances: `store.delete(..., in: tx)`. Returns how many there were.
  ///
  /// Complexity: O(1), but for what this transaction itself wrote, where no extension is notified of the collection; else
  /// O(n).
  @discardableResult
  public func delete(_ all: UnboundedRange, in tx: WriteTransaction) throws -> Int { try access.deleteAll(tx) }

  // MARK: - By itself

  /// Removes an instance that is there, and returns it. Throws `.notFound`.
  @discardableResult
  public func delete(_ id: Identifier, label: String? = nil, durability: StorageDurability? = nil) async throws
    -> Instance
  {
    try await database.write(label: label, durability: durability) { tx in try delete(id, in: tx) }
  }

  /// Removes an instance, and returns it; nil where there is none, or it can't be decoded.
  @discardableResult
  public func deleteIfPresent(_ id: Identifier, label: String? = nil, durability: StorageDurability? = nil) async throws
    -> Instance?
  {
    try await database.write(label: label, durability: durability) { tx in try deleteIfPresent(id, in: tx) }
  }

  /// Removes those of several instances that are there. Returns how many. Nothing is decoded, so that what can't be is
  /// removed too.
  @discardableResult
  public func delete(
    ids: some Sequence<Identifier> & Sendable, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Int {
    try await database.write(label: label, durability: durability) { tx in try delete(ids: ids, in: tx) }
  }

  /// Removes the instances whose identifiers are in a range: `"a"..<"b"`, `5...`, `...id`, `id..>`. Returns how many. Nothing
  /// is decoded, so that what can't be is removed too.
  @discardableResult
  public func delete(
    _ range: some KeyBounds<Identifier> & Sendable, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Int {
    let range = ScanRange(range)
    return try await database.write(label: label, durability: durability) { tx in try access.delete(range, tx) }
  }

  /// Removes all instances: `store.delete(...)`. Returns how many there were. Complexity: see the form in a transaction.
  @discardableResult
  public func delete(_ all: UnboundedRange, label: String? = nil, durability: StorageDurability? = nil) async throws
    -> Int
  {
    try await database.write(label: label, durability: durability) { tx in try delete(..., in: tx) }
  }
}

extension Store where Format: StoreFormat {
  /// Removes an instance that is there, and returns what was stored. Throws `.notFound`.
  @_disfavoredOverload
  @discardableResult
  public func delete(_ instance: Instance, in tx: WriteTransaction) throws -> Instance {
    try access.delete(Format.identifier(of: instance), tx)
  }

  /// Removes an instance, and returns what was stored; nil where there is none, or it can't be decoded.
  @_disfavoredOverload
  @discardableResult
  public func deleteIfPresent(_ instance: Instance, in tx: WriteTransaction) throws -> Instance? {
    try access.deleteIfPresent(Format.identifier(of: instance), tx)
  }

  /// Removes an instance that is there, and returns what was stored. Throws `.notFound`.
  @_disfavoredOverload
  @discardableResult
  public func delete(_ instance: Instance, label: String? = nil, durability: StorageDurability? = nil) async throws
    -> Instance
  {
    try await database.write(label: label, durability: durability) { tx in
      try delete(Format.identifier(of: instance), in: tx)
    }
  }

  /// Removes an instance, and returns what was stored; nil where there is none, or it can't be decoded.
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
