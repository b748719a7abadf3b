extension Database {
  /// Adds the definition of a collection to an open database, for parts of a program that are loaded late.
  ///
  /// Throws `.alreadyDefined`, `.definitionDiffers` if the collection was created by another definition, and
  /// `.invalidDefinition` if a rule is for objects of another type. The call may have to wait for the writer and for
  /// the disk.
  @_disfavoredOverload
  public func define(_ collection: CollectionDefinition) throws { try core.define(collection) }

  /// Adds the definition of a collection without blocking the task's thread: see the synchronous form.
  public func define(_ collection: CollectionDefinition) async throws {
    let core = core
    try await core.writerExecutor.run { try core.define(collection) }
  }

  /// Copies the database, as of one commit, to a path at which no file exists. The copy is a separate database,
  /// complete and durable when this returns.
  ///
  /// Reads and writes continue meanwhile. `progress` receives the completed fraction, from 0 to 1. The backup of a
  /// database in memory is a database on disk. Throws `.alreadyExists` if there is a file at the path, `.notFound` if
  /// its parent directory is missing, `.locked` if another backup to it is running, `.readOnly`, and `.storage`.
  public func backup(to path: String, progress: (@Sendable (Double) -> Void)? = nil) throws {
    try core.enter()
    defer { core.leave() }
    try core.requireWritable()
    try core.backend.checkpoint(to: path, progress: progress)
  }

  /// Copies the database without blocking the task's thread: see the synchronous form. If the task is cancelled, it
  /// throws `CancellationError` and leaves no copy.
  public func backup(to path: String, progress: (@Sendable (Double) -> Void)? = nil) async throws {
    let core = core
    try await core.writerExecutor.run {
      try Task.checkCancellation()
      try core.enter()
      defer { core.leave() }
      try core.requireWritable()
      try endingIfCancelled { try core.backend.checkpoint(to: path, progress: progress) }
    }
  }
}

extension DatabaseCore {
  fileprivate func define(_ collection: CollectionDefinition) throws {
    try enter()
    defer { leave() }
    try collection.checkRules()
    try catalog.define(collection.rows)
  }
}
