/// Reads and writes whose closures run on the actor that awaits them.
///
/// ```swift
/// actor Library {
///   var count = 0
///   func refresh(_ database: Database) async throws {
///     try await database.read(isolation: self) { tx in count = try tx.count(in: "books") }
///   }
/// }
/// ```
///
/// The closure may use the actor's state, and whatever else its caller may use. In return the actor waits while it
/// runs: on the main actor, the user interface does, also while the closure waits for a disk. In a function that is on
/// no actor, `isolation: #isolation` allows the same and keeps no actor from its work.
extension Database {
  /// Reads one snapshot on the caller's actor. Inside `perform`, it sees the writes of that transaction. Throws what
  /// `body` throws, and `CancellationError` as the form without `isolation` does.
  public func read<Result>(
    isolation: isolated (any Actor)?, _ body: (ReadTransaction) throws -> Result
  ) async throws -> Result {
    if let performing = AsyncTransaction.living(of: core) {
      return try await performing.runIsolated(isolation: isolation, body)
    }
    return try await withTaskExecutorPreference(core.executor, isolation: isolation) {
      _ = isolation
      return try core.readForTask(body)
    }
  }

  /// Changes the database atomically by a closure on the caller's actor: if `body` throws, nothing is changed. Inside
  /// `perform`, it is a savepoint.
  ///
  /// The call waits for the writer and for the commit suspended; the writer is held while the closure waits for the
  /// actor. Throws as the form without `isolation` does.
  @discardableResult
  public func write<Result>(
    label: String? = nil, durability: StorageDurability? = nil, writerTimeout: Duration? = nil,
    isolation: isolated (any Actor)?, _ body: (WriteTransaction) throws -> Result
  ) async throws -> Result {
    if let performing = AsyncTransaction.current(of: core) {
      return try await performing.runIsolated(isolation: isolation) { transaction in
        try transaction.savepoint { try body(transaction) }
      }
    }
    var terms = WriteTerms(label: label, durability: durability)
    terms.writerTimeout = writerTimeout
    try core.enter()
    defer { core.leave() }
    try core.requireWritable()
    try Task.checkCancellation()
    return try await withTaskExecutorPreference(core.writerExecutor, isolation: isolation) {
      _ = isolation
      try await core.writer.acquire(label, timeout: terms.timeout(core.options))
      let (result, commit) = try core.runHoldingWriter(terms, body)
      try await commit.waitSuspended(in: core)
      return result
    }
  }
}
