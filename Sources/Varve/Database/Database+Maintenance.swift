extension Database {
  /// Adds the definition of a collection to a database that is open: for parts of a program that come late.
  ///
  /// Throws `.alreadyDefined`, and `.definitionDiffers` where the collection was made by another.
  public func define(_ collection: CollectionDefinition) throws {
    try core.enter()
    defer { core.leave() }
    let found = core.catalog.collection(collection.name)
    guard found?.definition == nil else {
      throw DatabaseError(.alreadyDefined, "the collection has a definition already", collection: collection.name)
    }
    // Of a database that another program writes: it may come.
    if found == nil, core.backend.isReadOnly { return core.catalog.expect(collection) }
    _ = try core.catalog.collection(
      collection.name, definition: collection, keyType: collection.keyTypeName, coder: collection.coder)
  }

  /// Copies the database, as of one commit, to a path where nothing is: a database of its own, complete and durable
  /// when this returns. Reads and writes go on meanwhile. `progress` hears how far it is, from 0 to 1.
  public func backup(to path: String, progress: (@Sendable (Double) -> Void)? = nil) throws {
    try core.enter()
    defer { core.leave() }
    try core.backend.checkpoint(to: path, progress: progress)
  }

  /// The same for tasks.
  public func backup(to path: String, progress: (@Sendable (Double) -> Void)? = nil) async throws {
    let core = core
    try await core.executor.run {
      try core.enter()
      defer { core.leave() }
      try core.backend.checkpoint(to: path, progress: progress)
    }
  }
}
