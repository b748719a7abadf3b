/// Rewriting rows of older versions of a format.
extension Store {
  /// Rewrites all rows and metadata that were not written by the current version of the format and its current coder,
  /// or, with `limit`, those of versions declared before it. Returns the number of rewritten rows.
  ///
  /// A migration is never necessary, because reads convert rows. It is useful for dropping a version, or for converting
  /// once instead of at each read. Rows are rewritten in ordinary write transactions of up to 1,000 rows, which read
  /// the rows again: others read and write in between, and extensions are notified. Rows state their own version, so
  /// after an interruption by an error, a cancellation or a crash, rewritten rows are kept, and the next migration
  /// skips them.
  ///
  /// A row that this build can't decode keeps the others from nothing: it is left as it is, and all rows after it are
  /// rewritten. If the format skips or replaces such rows (``RowFormat/undecodable``), they are counted
  /// (``BuildProgress/rowsSkipped``); a stand-in is never stored. If it throws, the error of the first of them is
  /// thrown at the end, when all other rows are rewritten, and its message has their number.
  ///
  /// `progress` is called after each step, at least once. Throws `.decodingFailed`, `.unsupportedVersion`,
  /// `.unknownCoder` and `.corruption` with the first row that can't be decoded, and at once what a rule of the
  /// definition or an index throws for a row that is rewritten.
  @discardableResult
  public func migrate(
    olderThan limit: Format.Version? = nil, progress: ((BuildProgress) -> Void)? = nil
  ) async throws -> Int {
    let migration = Migration(access, limit: limit)
    var state = MigrationState(rowsTotal: try await database.read { tx in try migration.total(tx) })
    while !state.isDone {
      try Task.checkCancellation()
      let position = state.position
      let found = try await database.read { tx in try migration.find(from: position, tx) }
      let rewritten =
        found.keys.isEmpty
        ? Migration<Format>.Rewritten()
        : try await database.write(label: "migrate") { tx in try migration.rewrite(found, tx) }
      state.advance(found, rewritten)
      progress?(state.progress)
    }
    try state.requireAll(Format.self)
    return state.rewritten
  }

  /// Rewrites outdated rows, and blocks the calling thread: see the asynchronous form.
  @_disfavoredOverload
  @discardableResult
  public func migrate(
    olderThan limit: Format.Version? = nil, progress: ((BuildProgress) -> Void)? = nil
  ) throws -> Int {
    let migration = Migration(access, limit: limit)
    let core = database.core
    var state = MigrationState(rowsTotal: try core.read { tx in try migration.total(tx) })
    while !state.isDone {
      let found = try core.read { tx in try migration.find(from: state.position, tx) }
      let rewritten =
        found.keys.isEmpty
        ? Migration<Format>.Rewritten()
        : try core.write(WriteTerms(label: "migrate")) { tx in try migration.rewrite(found, tx) }
      state.advance(found, rewritten)
      progress?(state.progress)
    }
    try state.requireAll(Format.self)
    return state.rewritten
  }
}
