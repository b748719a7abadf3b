/// Writes instances.
///
/// If instances have their metadata themselves (``StoreFormat/metadataPath``), it is written with them; otherwise
/// stored metadata is kept unless it is given. Each method throws `.unsupportedVersion`, without any change, if a newer
/// program has written the row.
extension Store where Format: StoreFormat {
  // MARK: - Inside a transaction

  /// Sets an instance, whether it exists or not, and keeps its stored metadata. Returns the previous one, or nil if
  /// there was none or it cannot be decoded.
  @discardableResult
  public func persist(_ instance: Instance, in tx: WriteTransaction) throws -> Instance? {
    try access.persist(instance, Format.identifier(of: instance), access.own, tx)
  }

  /// Sets an instance, whether it exists or not, and its metadata, or removes the metadata if it is nil. Returns the
  /// previous one, or nil if there was none or it cannot be decoded.
  @discardableResult
  public func persist(_ instance: Instance, metadata: Metadata?, in tx: WriteTransaction) throws -> Instance? {
    try access.persist(instance, Format.identifier(of: instance), .set(metadata), tx)
  }

  /// Sets several instances atomically: if this throws, none is set. The previous ones are not decoded.
  public func persist(contentsOf instances: some Sequence<Instance>, in tx: WriteTransaction) throws {
    try tx.savepoint {
      for instance in instances {
        try access.set(instance, Format.identifier(of: instance), access.own, tx)
      }
    }
  }

  /// Sets an instance that does not exist. Throws `.alreadyExists`.
  public func insert(_ instance: Instance, in tx: WriteTransaction) throws {
    try access.insert(instance, Format.identifier(of: instance), access.own, tx)
  }

  /// Sets an instance that does not exist, and its metadata. Throws `.alreadyExists`.
  public func insert(_ instance: Instance, metadata: Metadata?, in tx: WriteTransaction) throws {
    try access.insert(instance, Format.identifier(of: instance), .set(metadata), tx)
  }

  /// Sets an existing instance, and keeps its stored metadata. Returns the previous one. Throws `.notFound`.
  @discardableResult
  public func update(_ instance: Instance, in tx: WriteTransaction) throws -> Instance {
    try access.update(instance, Format.identifier(of: instance), access.own, tx)
  }

  /// Sets an existing instance, and its metadata, or removes the metadata if it is nil. Returns the previous one.
  /// Throws `.notFound`.
  @discardableResult
  public func update(_ instance: Instance, metadata: Metadata?, in tx: WriteTransaction) throws -> Instance {
    try access.update(instance, Format.identifier(of: instance), .set(metadata), tx)
  }

  /// Changes an existing instance, and keeps its stored metadata. Returns the new one; if a rule of the definition
  /// removes it (`sanitized`), the result is that of `body`.
  ///
  /// Throws `.notFound`, `.invalidArgument` if `body` changes the identifier, and what `body` throws.
  @discardableResult
  public func modify(
    _ id: Identifier, in tx: WriteTransaction, _ body: (inout Instance) throws -> Void
  ) throws -> Instance {
    try access.modify(id, tx, check: { try access.requireIdentifier(of: $0, id) }, body)
  }

  // MARK: - In a transaction of its own

  /// Sets an instance, whether it exists or not, and keeps its stored metadata. Returns the previous one, or nil if
  /// there was none or it cannot be decoded.
  @discardableResult
  public func persist(_ instance: Instance, label: String? = nil, durability: StorageDurability? = nil) async throws
    -> Instance?
  {
    try await database.write(label: label, durability: durability) { tx in try persist(instance, in: tx) }
  }

  /// Sets an instance, whether it exists or not, and its metadata, or removes the metadata if it is nil. Returns the
  /// previous one, or nil if there was none or it cannot be decoded.
  @discardableResult
  public func persist(
    _ instance: Instance, metadata: Metadata?, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Instance? {
    try await database.write(label: label, durability: durability) { tx in
      try persist(instance, metadata: metadata, in: tx)
    }
  }

  /// Sets several instances in one transaction: if this throws, none is set. The previous ones are not decoded.
  public func persist(
    contentsOf instances: sending some Sequence<Instance>, label: String? = nil, durability: StorageDurability? = nil
  ) async throws {
    let instances = AwaitedElements(instances)
    try await database.write(label: label, durability: durability) { tx in try persist(contentsOf: instances, in: tx) }
  }

  /// Sets an instance that does not exist. Throws `.alreadyExists`.
  public func insert(_ instance: Instance, label: String? = nil, durability: StorageDurability? = nil) async throws {
    try await database.write(label: label, durability: durability) { tx in try insert(instance, in: tx) }
  }

  /// Sets an instance that does not exist, and its metadata. Throws `.alreadyExists`.
  public func insert(
    _ instance: Instance, metadata: Metadata?, label: String? = nil, durability: StorageDurability? = nil
  ) async throws {
    try await database.write(label: label, durability: durability) { tx in
      try insert(instance, metadata: metadata, in: tx)
    }
  }

  /// Sets an existing instance, and keeps its stored metadata. Returns the previous one. Throws `.notFound`.
  @discardableResult
  public func update(_ instance: Instance, label: String? = nil, durability: StorageDurability? = nil) async throws
    -> Instance
  {
    try await database.write(label: label, durability: durability) { tx in try update(instance, in: tx) }
  }

  /// Sets an existing instance, and its metadata, or removes the metadata if it is nil. Returns the previous one.
  /// Throws `.notFound`.
  @discardableResult
  public func update(
    _ instance: Instance, metadata: Metadata?, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Instance {
    try await database.write(label: label, durability: durability) { tx in
      try update(instance, metadata: metadata, in: tx)
    }
  }

  /// Changes an existing instance, and keeps its stored metadata. Returns the new one; if a rule of the definition
  /// removes it (`sanitized`), the result is that of `body`.
  ///
  /// Throws `.notFound`, `.invalidArgument` if `body` changes the identifier, and what `body` throws.
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

extension Store {
  /// Sets the metadata of an existing instance, or removes it if it is nil. Throws `.notFound`.
  public func setMetadata(_ metadata: Metadata?, of id: Identifier, in tx: WriteTransaction) throws {
    try access.setMetadata(metadata, id, tx)
  }

  /// Sets the metadata of an existing instance, or removes it if it is nil. Throws `.notFound`.
  public func setMetadata(
    _ metadata: Metadata?, of id: Identifier, label: String? = nil, durability: StorageDurability? = nil
  ) async throws {
    try await database.write(label: label, durability: durability) { tx in try setMetadata(metadata, of: id, in: tx) }
  }
}
