/// Setting instances.
///
/// Where instances have their metadata themselves (``StoreFormat/metadataPath``), what they have is set with them;
/// otherwise what is stored stays, unless it is given. Each call throws `.unsupportedVersion` where a newer program has
/// written the row, and replaces nothing.
extension Store where Format: StoreFormat {
  // MARK: - Inside of a transaction

  /// Sets an instance, new or not, and keeps its stored metadata. Returns what was there, if it can be decoded.
  @discardableResult
  public func persist(_ instance: Instance, in tx: WriteTransaction) throws -> Instance? {
    try access.persist(instance, Format.identifier(of: instance), access.own, tx)
  }

  /// Sets an instance, new or not, and its metadata; nil: it has none then. Returns what was there, if it can be
  /// decoded.
  @discardableResult
  public func persist(_ instance: Instance, metadata: Metadata?, in tx: WriteTransaction) throws -> Instance? {
    try access.persist(instance, Format.identifier(of: instance), .set(metadata), tx)
  }

  /// Sets several instances: all of them, or where it throws none. What was there is not decoded.
  public func persist(contentsOf instances: some Sequence<Instance>, in tx: WriteTransaction) throws {
    try tx.savepoint {
      for instance in instances {
        try access.set(instance, Format.identifier(of: instance), access.own, tx)
      }
    }
  }

  /// Sets an instance that is not there. Throws `.alreadyExists`.
  public func insert(_ instance: Instance, in tx: WriteTransaction) throws {
    try access.insert(instance, Format.identifier(of: instance), access.own, tx)
  }

  /// Sets an instance that is not there, and its metadata. Throws `.alreadyExists`.
  public func insert(_ instance: Instance, metadata: Metadata?, in tx: WriteTransaction) throws {
    try access.insert(instance, Format.identifier(of: instance), .set(metadata), tx)
  }

  /// Sets an instance that is there, and keeps its stored metadata. Returns what was there. Throws `.notFound`.
  @discardableResult
  public func update(_ instance: Instance, in tx: WriteTransaction) throws -> Instance {
    try access.update(instance, Format.identifier(of: instance), access.own, tx)
  }

  /// Sets an instance that is there, and its metadata; nil: it has none then. Returns what was there. Throws
  /// `.notFound`.
  @discardableResult
  public func update(_ instance: Instance, metadata: Metadata?, in tx: WriteTransaction) throws -> Instance {
    try access.update(instance, Format.identifier(of: instance), .set(metadata), tx)
  }

  /// Changes an instance that is there, and keeps its stored metadata. Returns what it is then; where a rule of the
  /// definition removes it (`sanitized`), as `body` left it.
  ///
  /// Throws `.notFound`, `.invalidArgument` where `body` gives it another identifier, and what `body` throws.
  @discardableResult
  public func modify(
    _ id: Identifier, in tx: WriteTransaction, _ body: (inout Instance) throws -> Void
  ) throws -> Instance {
    try access.modify(id, tx, check: { try access.requireIdentifier(of: $0, id) }, body)
  }

  // MARK: - By itself

  /// Sets an instance, new or not, and keeps its stored metadata. Returns what was there, if it can be decoded.
  @discardableResult
  public func persist(_ instance: Instance, label: String? = nil, durability: StorageDurability? = nil) async throws
    -> Instance?
  {
    try await database.write(label: label, durability: durability) { tx in try persist(instance, in: tx) }
  }

  /// Sets an instance, new or not, and its metadata; nil: it has none then. Returns what was there, if it can be
  /// decoded.
  @discardableResult
  public func persist(
    _ instance: Instance, metadata: Metadata?, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Instance? {
    try await database.write(label: label, durability: durability) { tx in
      try persist(instance, metadata: metadata, in: tx)
    }
  }

  /// Sets several instances in one transaction: all of them, or where it throws none. What was there is not decoded.
  public func persist(
    contentsOf instances: some Sequence<Instance> & Sendable, label: String? = nil, durability: StorageDurability? = nil
  ) async throws {
    try await database.write(label: label, durability: durability) { tx in try persist(contentsOf: instances, in: tx) }
  }

  /// Sets an instance that is not there. Throws `.alreadyExists`.
  public func insert(_ instance: Instance, label: String? = nil, durability: StorageDurability? = nil) async throws {
    try await database.write(label: label, durability: durability) { tx in try insert(instance, in: tx) }
  }

  /// Sets an instance that is not there, and its metadata. Throws `.alreadyExists`.
  public func insert(
    _ instance: Instance, metadata: Metadata?, label: String? = nil, durability: StorageDurability? = nil
  ) async throws {
    try await database.write(label: label, durability: durability) { tx in
      try insert(instance, metadata: metadata, in: tx)
    }
  }

  /// Sets an instance that is there, and keeps its stored metadata. Returns what was there. Throws `.notFound`.
  @discardableResult
  public func update(_ instance: Instance, label: String? = nil, durability: StorageDurability? = nil) async throws
    -> Instance
  {
    try await database.write(label: label, durability: durability) { tx in try update(instance, in: tx) }
  }

  /// Sets an instance that is there, and its metadata; nil: it has none then. Returns what was there. Throws
  /// `.notFound`.
  @discardableResult
  public func update(
    _ instance: Instance, metadata: Metadata?, label: String? = nil, durability: StorageDurability? = nil
  ) async throws -> Instance {
    try await database.write(label: label, durability: durability) { tx in
      try update(instance, metadata: metadata, in: tx)
    }
  }

  /// Changes an instance that is there, and keeps its stored metadata. Returns what it is then; where a rule of the
  /// definition removes it (`sanitized`), as `body` left it.
  ///
  /// Throws `.notFound`, `.invalidArgument` where `body` gives it another identifier, and what `body` throws.
  @discardableResult
  public func modify(
    _ id: Identifier, label: String? = nil, durability: StorageDurability? = nil,
    _ body: @Sendable (inout Instance) throws -> Void
  ) async throws -> Instance {
    try await database.write(label: label, durability: durability) { tx in try modify(id, in: tx, body) }
  }
}

extension Store {
  /// Sets the metadata of an instance that is there; nil: it has none then. Throws `.notFound`.
  public func setMetadata(_ metadata: Metadata?, of id: Identifier, in tx: WriteTransaction) throws {
    try access.setMetadata(metadata, id, tx)
  }

  /// Sets the metadata of an instance that is there; nil: it has none then. Throws `.notFound`.
  public func setMetadata(
    _ metadata: Metadata?, of id: Identifier, label: String? = nil, durability: StorageDurability? = nil
  ) async throws {
    try await database.write(label: label, durability: durability) { tx in try setMetadata(metadata, of: id, in: tx) }
  }
}
