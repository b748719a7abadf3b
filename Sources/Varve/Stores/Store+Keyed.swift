/// Setting instances whose identifiers are given: formats that are ``KeyedFormat``. As for others what is stored as
/// metadata stays, unless it is given; and a row that a newer program has written is replaced by no call
/// (`.unsupportedVersion`).
extension Store where Format: KeyedFormat {
  // MARK: - Inside of a transaction

  /// Sets the instance of an identifier, new or not, and keeps its stored metadata. Returns what was there, if it can be
  /// decoded.
  @discardableResult
  public func persist(_ instance: Instance, for id: Identifier, in tx: WriteTransaction) throws -> Instance? {
    try access.persist(instance, id, access.own, tx)
  }

  /// Sets the instance of an identifier, new or not, and its metadata; nil: it has none then. Returns what was there, if
  /// it can be decoded.
  @discardableResult
  public func persist(
    _ instance: Instance, for id: Identifier, metadata: Metadata?, in tx: WriteTransaction
  ) throws -> Instance? {
    try access.persist(instance, id, .set(metadata), tx)
  }

  /// Sets the instances of several identifiers: all of them, or where it throws none. What was there is not decoded.
  public func persist(
    contentsOf instances: some Sequence<(key: Identifier, value: Instance)>, in tx: WriteTransaction
  ) throws {
    try tx.savepoint {
      for (id, instance) in instances { try access.set(instance, id, access.own, tx) }
    }
  }

  /// Sets the instance of an identifier that has none. Throws `.alreadyExists`.
  public func insert(_ instance: Instance, for id: Identifier, in tx: WriteTransaction) throws {
    try access.insert(instance, id, access.own, tx)
  }

  /// Sets the instance of an identifier that has none, and its metadata. Throws `.alreadyExists`.
  public func insert(
    _ instance: Instance, for id: Identifier, metadata: Metadata?, in tx: WriteTransaction
  ) throws {
    try access.insert(instance, id, .set(metadata), tx)
  }

  /// Sets the instance of an identifier that has one, and keeps its stored metadata. Returns what was there. Throws
  /// `.notFound`.
  @discardableResult
  public func update(_ instance: Instance, for id: Identifier, in tx: WriteTransaction) throws -> Instance {
    try access.update(instance, id, access.own, tx)
  }

  /// Sets the instance of an identifier that has one, and its metadata; nil: it has none then. Returns what was there.
  /// Throws `.notFound`.
  @discardableResult
  public func update(
    _ instance: Instance, for id: Identifier, metadata: Metadata?, in tx: WriteTransaction
  ) throws -> Instance {
    try access.update(instance, id, .set(metadata), tx)
  }

  /// Changes the instance of an identifier that has one, and keeps its stored metadata. Returns what it is then. Throws
  /// `.notFound`, and what `body` throws.
  @discardableResult
  public func modify(
    _ id: Identifier, in tx: WriteTransaction, _ body: (inout Instance) throws -> Void
  ) throws -> Instance {
    try access.modify(id, tx, check: { _ in }, body)
  }

  // MARK: - By itself

  /// Sets the instance of an identifier, new or not, and keeps its stored metadata. Returns what was there, if it can be
  /// decoded.
  @discardableResult
  public func persist(
    _ instance: Instance, for id: Identifier, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Instance? {
    try await database.write(label: label, durability: durability) { tx in try persist(instance, for: id, in: tx) }
  }

  /// Sets the instance of an identifier, new or not, and its metadata; nil: it has none then. Returns what was there, if
  /// it can be decoded.
  @discardableResult
  public func persist(
    _ instance: Instance, for id: Identifier, metadata: Metadata?, label: String? = nil,
    durability: StorageDurability? = nil
  ) async throws -> Instance? {
    try await database.write(label: label, durability: durability) { tx in
      try persist(instance, for: id, metadata: metadata, in: tx)
    }
  }

  /// Sets the instances of several identifiers in one transaction: all of them, or where it throws none. What was there
  /// is not decoded.
  public func persist(
    contentsOf instances: some Sequence<(key: Identifier, value: Instance)> & Sendable, label: String? = nil,
    durability: StorageDurability? = nil
  ) async throws {
    try await database.write(label: label, durability: durability) { tx in
      try persist(contentsOf: instances, in: tx)
    }
  }

  /// Sets the instance of an identifier that has none. Throws `.alreadyExists`.
  public func insert(
    _ instance: Instance, for id: Identifier, label: String? = nil, durability: StorageDurability? = nil
  ) async throws {
    try await database.write(label: label, durability: durability) { tx in try insert(instance, for: id, in: tx) }
  }

  /// Sets the instance of an identifier that has none, and its metadata. Throws `.alreadyExists`.
  public func insert(
    _ instance: Instance, for id: Identifier, metadata: Metadata?, label: String? = nil,
    durability: StorageDurability? = nil
  ) async throws {
    try await database.write(label: label, durability: durability) { tx in
      try insert(instance, for: id, metadata: metadata, in: tx)
    }
  }

  /// Sets the instance of an identifier that has one, and keeps its stored metadata. Returns what was there. Throws
  /// `.notFound`.
  @discardableResult
  public func update(
    _ instance: Instance, for id: Identifier, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Instance {
    try await database.write(label: label, durability: durability) { tx in try update(instance, for: id, in: tx) }
  }

  /// Sets the instance of an identifier that has one, and its metadata; nil: it has none then. Returns what was there.
  /// Throws `.notFound`.
  @discardableResult
  public func update(
    _ instance: Instance, for id: Identifier, metadata: Metadata?, label: String? = nil,
    durability: StorageDurability? = nil
  ) async throws -> Instance {
    try await database.write(label: label, durability: durability) { tx in
      try update(instance, for: id, metadata: metadata, in: tx)
    }
  }

  /// Changes the instance of an identifier that has one, and keeps its stored metadata. Returns what it is then. Throws
  /// `.notFound`, and what `body` throws.
  @discardableResult
  public func modify(
    _ id: Identifier, label: String? = nil, durability: StorageDurability? = nil,
    _ body: @Sendable (inout Instance) throws -> Void
  ) async throws -> Instance {
    try await database.write(label: label, durability: durability) { tx in try modify(id, in: tx, body) }
  }
}
