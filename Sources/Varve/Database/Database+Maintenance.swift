extension Database {
  /// Adds the definition of a collection to a database that is open: for parts of a program that come late.
  ///
  /// Throws `.alreadyDefined`, `.definitionDiffers` where the collection was made by another, and `.invalidDefinition`
  /// where a rule is for objects of another type. It may have to wait for the writer and for the disk.
  @_disfavoredOverload
  public func define(_ collection: CollectionDefinition) throws { try core.define(collection) }

  /// The same for tasks.
  public func define(_ collection: CollectionDefinition) async throws {
    let core = core
    try await core.writerExecutor.run { try core.define(collection) }
  }

  /// Copies the database, as of one commit, to a path where nothing is: a database of its own, complete and durable
  /// when this returns. Reads and writes go on meanwhile. `progress` hears how far it is, from 0 to 1.
  ///
  /// The backup of a database in memory is one on disk. Throws `.alreadyExists` where something is at the path,
  /// `.notFound` where the directory above is missing, `.locked` where another backup to it is running, `.readOnly`, and
  /// `.storage`.
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

extension DatabaseCore {
  fileprivate func define(_ collection: CollectionDefinition) throws {
    try enter()
    defer { leave() }
    try collection.checkRules()
    try catalog.define(collection)
  }
}
