extension Database {
  /// Returns a sequence with an element after each commit.
  @_spi(Extensions) public var commitSignals: CommitSignals { CommitSignals(core) }

  /// Runs `body`, which reads, on a thread of the database. Returns `nil` if the database is closed; `close` waits for
  /// `body`.
  @_spi(Extensions) public func readWhileOpen<Result: Sendable>(
    _ body: @Sendable () throws -> Result
  ) async throws -> Result? {
    try await core.executor.run { [core] in try core.changes.whileOpen(body) }
  }
}

/// A watcher that is woken by every commit.
private final class CommitWatcher: RowWatcher {
  var isWokenByAll: Bool { true }
  func mayConcern(_ changes: ChangeSet) -> Bool { true }
  func mayConcern(_ parts: PartWrites.Noted) -> Bool { true }
  func concerned(_ rows: ChangedRows) -> [[UInt8]] { rows.keys }
}
