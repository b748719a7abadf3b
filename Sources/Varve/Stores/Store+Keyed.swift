/// Writes instances whose identifiers are passed separately, for ``KeyedFormat`` formats. As for other formats, stored
/// metadata is kept unless it is given, and each method throws `.unsupportedVersion`, without any change, if a newer
/// program has written the row.
extension Store where Format: KeyedFormat {
  // MARK: - Inside a transaction

  /// Sets the instance of an identifier, whether it exists or not, and keeps its stored metadata. Returns the previous
  /// one, or nil if there was none or it cannot be decoded.
  @discardableResult
  public func persist(_ instance: Instance, for id: Identifier, in tx: WriteTransaction) throws -> Instance? {
    try access.persist(instance, id, access.own, tx)
  }

  /// Sets the instance of an identifier, whether it exists or not, and its metadata, or removes the metadata if it is
  /// nil. Returns the previous one, or nil if there was none or it cannot be decoded.
  @discardableResult
  public func persist(
    _ instance: Instance, for id: Identifier, metadata: Metadata?, in tx: WriteTransaction
  ) throws -> Instance? {
    try access.persist(instance, id, .set(metadata), tx)
  }

  /// Sets the instances of several identifiers atomically: if this throws, none is set. The previous ones are not
  /// decoded.
  public func persist(
    contentsOf instances: some Sequence<(key: Identifier, value: Instance)>, in tx: WriteTransaction
  ) throws {
    try tx.savepoint {
      for (id, instance) in instances { try access.set(instance, id, access.own, tx) }
    }
  }

  /// Sets the instance of an identifier without one. Throws `.alreadyExists`.
  public func insert(_ instance: Instance, for id: Identifier, in tx: WriteTransaction) throws {
    try access.insert(instance, id, access.own, tx)
  }

  /// Sets the instance of an identifier without one, and its metadata. Throws `.alreadyExists`.
  public func insert(
    _ instance: Instance, for id: Identifier, metadata: Metadata?, in tx: WriteTransaction
  ) throws {
    try access.insert(instance, id, .set(metadata), tx)
  }

  /// Sets the instance of an identifier with one, and keeps its stored metadata. Returns the previous one. Throws
  /// `.notFound`.
  @discardableResult
  public func update(_ instance: Instance, for id: Identifier, in tx: WriteTransaction) throws -> Instance {
    try access.update(instance, id, access.own, tx)
  }

  /// Sets the instance of an identifier with one, and its metadata, or removes the metadata if it is nil. Returns the
  /// previous one. Throws `.notFound`.
  @discardableResult
  public func update(
    _ instance: Instance, for id: Identifier, metadata: Metadata?, in tx: WriteTransaction
  ) throws -> Instance {
    try access.update(instance, id, .set(metadata), tx)
  }

  /// Changes the instance of an identifier with one, and keeps its stored metadata. Returns the new one. Throws
  /// `.notFound`, and what `body` throws.
  @discardableResult
  public func modify(
    _ id: Identifier, in tx: WriteTransaction, _ body: (inout Instance) throws -> Void
  ) throws -> Instance {
    try access.modify(id, tx, check: { _ in }, body)
  }

  // MARK: - In a transaction of its own

  /// Sets the instance of an identifier, whether it exists or not, and keeps its stored metadata. Returns the previous
  /// one, or nil if there was none or it cannot be decoded.
  @discardableResult
  public func persist(
    _ instance: Instance, for id: Identifier, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Instance? {
    try await database.write(label: label, durability: durability) { tx in try persist(instance, for: id, in: tx) }
  }

  /// Sets the instance of an identifier, whether it exists or not, and its metadata, or removes the metadata if it is
  /// nil. Returns the previous one, or nil if there was none or it cannot be decoded.
  @discardableResult
  public func persist(
    _ instance: Instance, for id: Identifier, metadata: Metadata?, label: String? = nil,
    durability: StorageDurability? = nil
  ) async throws -> Instance? {
    try await database.write(label: label, durability: durability) { tx in
      try persist(instance, for: id, metadata: metadata, in: tx)
    }
  }

  /// Sets the instances of several identifiers in one transaction: if this throws, none is set. The previous ones are
  /// not decoded.
  public func persist(
    contentsOf instances: sending some Sequence<(key: Identifier, value: Instance)>, label: String? = nil,
    durability: StorageDurability? = nil
  ) async throws {
    let instances = AwaitedElements(instances)
    try await database.write(label: label, durability: durability) { tx in
      try persist(contentsOf: instances, in: tx)
    }
  }

  /// Sets the instance of an identifier without one. Throws `.alreadyExists`.
  public func insert(
    _ instance: Instance, for id: Identifier, label: String? = nil, durability: StorageDurability? = nil
  ) async throws {
    try await database.write(label: label, durability: durability) { tx in try insert(instance, for: id, in: tx) }
  }

  /// Sets the instance of an identifier without one, and its metadata. Throws `.alreadyExists`.
  public func insert(
    _ instance: Instance, for id: Identifier, metadata: Metadata?, label: String? = nil,
    durability: StorageDurability? = nil
  ) async throws {
    try await database.write(label: label, durability: durability) { tx in
      try insert(instance, for: id, metadata: metadata, in: tx)
    }
  }

  /// Sets the instance of an identifier with one, and keeps its stored metadata. Returns the previous one. Throws
  /// `.notFound`.
  @discardableResult
  public func update(
    _ instance: Instance, for id: Identifier, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Instance {
    try await database.write(label: label, durability: durability) { tx in try update(instance, for: id, in: tx) }
  }

  /// Sets the instance of an identifier with one, and its metadata, or removes the metadata if it is nil. Returns the
  /// previous one. Throws `.notFound`.
  @discardableResult
  public func update(
    _ instance: Instance, for id: Identifier, metadata: Metadata?, label: String? = nil,
    durability: StorageDurability? = nil
  ) async throws -> Instance {
    try await database.write(label: label, durability: durability) { tx in
      try update(instance, for: id, metadata: metadata, in: tx)
    }
  }

  /// Changes the instance of an identifier with one, and keeps its stored metadata. Returns the new one. Throws
  /// `.notFound`, and what `body` throws.
  @discardableResult
  public func modify(
    _ id: Identifier, label: String? = nil, durability: StorageDurability? = nil,
    _ body: sending (inout Instance) throws -> Void
  ) async throws -> Instance {
    try await withAwaitedChange(body) { body in
      try await database.write(label: label, durability: durability) { tx in try modify(id, in: tx, body) }
    }
  }
}
