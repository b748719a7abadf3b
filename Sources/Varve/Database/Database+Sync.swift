extension Database {
  /// Waits until every commit up to a version, or every acknowledged commit, survives a loss of power, as after a
  /// commit with the durability `.power`.
  ///
  /// Commits with `.none` are not logged, and may still be lost. Throws `.storage` if the log cannot be made durable;
  /// the database accepts no further commits then.
  @_disfavoredOverload
  public func sync(through version: CommitVersion? = nil) throws { try core.sync(version) }

  /// Waits for the durability of commits without blocking the task's thread: see the synchronous form.
  public func sync(through version: CommitVersion? = nil) async throws {
    let core = core
    try await core.writerExecutor.run { try core.sync(version) }
  }
}

extension DatabaseCore {
  fileprivate func sync(_ version: CommitVersion?) throws {
    try enter()
    defer { leave() }
    try backend.sync(through: try version ?? backend.snapshot().version)
  }
}
