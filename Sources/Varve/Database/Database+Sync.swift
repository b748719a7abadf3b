extension Database {
  /// Returns when every commit up to a version, or every acknowledged one, survives a loss of power: as after a commit that
  /// asked for `.power`. What was committed with `.none` is not logged, and may still be lost.
  ///
  /// Throws `.storage` where the log can't be made durable, after which the database takes nothing more.
  @_disfavoredOverload
  public func sync(through version: CommitVersion? = nil) throws { try core.sync(version) }

  /// The same for tasks.
  public func sync(through version: CommitVersion? = nil) async throws {
    let core = core
    try await core.executor.run { try core.sync(version) }
  }
}

extension DatabaseCore {
  fileprivate func sync(_ version: CommitVersion?) throws {
    try enter()
    defer { leave() }
    try backend.sync(through: try version ?? backend.snapshot().version)
  }
}
