/// Rewriting what older versions of a format have written.
extension Store {
  /// Rewrites every row, and all metadata, that the current version of the format and its present coder have not written,
  /// or what a version declared before `limit` has. Returns how many rows.
  ///
  /// Nothing has to be migrated: reads convert. It is for who wants to drop a version, or to convert once and not at
  /// each read. Rows are rewritten up to 1,000 at a time, each time in an ordinary write transaction that reads them
  /// as they are then: others read and write in between, and extensions hear of it. Rows say themselves which version
  /// they have, so a migration that was interrupted, by a throw, a cancellation or a crash, continues where it was: what
  /// was rewritten stays, and is passed by the next one.
  ///
  /// `progress` is called after each step, once at least. Throws `.decodingFailed` and `.unsupportedVersion` with the
  /// row that can't be converted.
  @discardableResult
  public func migrate(
    olderThan limit: Format.Version? = nil, progress: (@Sendable (BuildProgress) -> Void)? = nil
  ) async throws -> Int {
    let migration = Migration(access, limit: limit)
    var state = MigrationState(rowsTotal: try await count)
    while !state.isDone {
      try Task.checkCancellation()
      let position = state.position
      let found = try await database.read { tx in try migration.find(from: position, tx) }
      let rewritten =
        found.keys.isEmpty
        ? 0 : try await database.write(label: "migrate") { tx in try migration.rewrite(found, tx) }
      state.advance(found, rewritten: rewritten)
      progress?(state.progress)
    }
    return state.rewritten
  }

  /// The same on this thread.
  @_disfavoredOverload
  @discardableResult
  public func migrate(
    olderThan limit: Format.Version? = nil, progress: (@Sendable (BuildProgress) -> Void)? = nil
  ) throws -> Int {
    let migration = Migration(access, limit: limit)
    let core = database.core
    var state = MigrationState(rowsTotal: try core.read { tx in try access.count(tx) })
    while !state.isDone {
      let found = try core.read { tx in try migration.find(from: state.position, tx) }
      let rewritten =
        found.keys.isEmpty
        ? 0 : try core.write(WriteTerms(label: "migrate")) { tx in try migration.rewrite(found, tx) }
      state.advance(found, rewritten: rewritten)
      progress?(state.progress)
    }
    return state.rewritten
  }
}
