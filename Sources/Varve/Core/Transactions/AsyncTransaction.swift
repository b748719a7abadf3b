/// A `perform` that runs: the write transaction that the calls inside of it share.
///
/// Found by a task-local, so that child tasks find it too; their calls take turns. It holds the writer from its
/// beginning to its end, whatever it waits for meanwhile.
///
/// # Concurrency
/// The transaction is touched by the caller that has the turn, one at a time, on any thread: that of the call where nothing has
/// to be waited for there, else one of the database's own.
final class AsyncTransaction: @unchecked Sendable {
  // Sendable: see Concurrency above.
  @TaskLocal private static var running: [AsyncTransaction] = []

  private let core: DatabaseCore
  private let transaction: WriteTransaction
  private let terms: WriteTerms
  private let turn = WriterQueue(isStrict: true)

  init(_ core: DatabaseCore, _ transaction: WriteTransaction, _ terms: WriteTerms) {
    self.core = core
    self.transaction = transaction
    self.terms = terms
  }

  /// The innermost of a database in this task, also one that has ended: a task that was started inside of it, and
  /// outlives it, still has it. Its writes throw then: they were meant for that transaction.
  static func current(of core: DatabaseCore) -> AsyncTransaction? { running.last { $0.core === core } }

  /// The innermost of a database in this task that has not ended: reads after its end are reads like any others.
  static func living(of core: DatabaseCore) -> AsyncTransaction? {
    running.last { $0.core === core && !$0.turn.isClosed }
  }

  private static var endedError: DatabaseError {
    DatabaseError(
      .transactionEnded,
      "the call belongs to a perform that has ended: a task that was started in its closure has outlived it; wait for "
        + "the task inside, or start it outside or detached")
  }

  /// Runs `body` so that the calls inside of it find this.
  func inside<Result>(
    isolation: isolated (any Actor)?, _ body: () async throws -> Result
  ) async rethrows -> Result {
    try await Self.$running.withValue(Self.running + [self], operation: body, isolation: isolation)
  }

  /// Runs `body` with the transaction when it is its turn, where it may wait for a disk.
  func run<Result: Sendable>(_ body: @Sendable (WriteTransaction) throws -> Result) async throws -> Result {
    try await inTurn(isInline: core.backend.isInMemory) {
      try transaction.check()
      return try ThreadFrame.run(transaction, body)
    }
  }

  /// Writes in a savepoint of its own when it is its turn: where a write of these terms runs.
  func nest<Result: Sendable>(_ body: @Sendable (WriteTransaction) throws -> Result) async throws -> Result {
    try await inTurn(isInline: core.writesInline) {
      try transaction.check()
      return try ThreadFrame.run(transaction) { transaction in
        try transaction.savepoint { try body(transaction) }
      }
    }
  }

  /// Runs `body` in its turn: here if `isInline` says so, the caller is not on an actor, and the turn is free.
  private func inTurn<Result: Sendable>(
    isInline: Bool, _ body: @Sendable () throws -> Result
  ) async throws -> Result {
    let isOnActor = isActor(#isolation)
    if isInline, !isOnActor, try tryTakeTurn() {
      defer { turn.release() }
      return try body()
    }
    return try await core.writerExecutor.runTask {
      try await takeTurn()
      defer { turn.release() }
      return try body()
    }
  }

  /// Gives the transaction to the storage, when no call is let in any more.
  func apply() async throws -> AppliedCommit {
    try await core.run(isInline: core.writesInline, on: core.writerExecutor) {
      try core.apply(transaction, terms)
    }
  }

  /// The same for synchronous code, whose thread waits for the turn.
  func runHere<Result>(_ body: (WriteTransaction) throws -> Result) throws -> Result {
    do { try turn.acquire(nil, timeout: core.options.writerTimeout) } catch let error as DatabaseError
      where error.code == .closed
    {
      throw Self.endedError
    }
    defer { turn.release() }
    try transaction.check()
    return try ThreadFrame.run(transaction, body)
  }

  /// The same in a savepoint of its own.
  func nestHere<Result>(_ body: (WriteTransaction) throws -> Result) throws -> Result {
    try runHere { transaction in try transaction.savepoint { try body(transaction) } }
  }

  /// A `perform` inside of this one: it has the turn to its end, and is undone alone where it throws.
  func perform<Result>(
    isolation: isolated (any Actor)?, _ body: () async throws -> Result
  ) async throws -> Result {
    try await takeTurn()
    defer { turn.release() }
    try transaction.check()
    let location = try transaction.beginSavepoint()
    let inner = AsyncTransaction(core, transaction, terms)
    do {
      let result = try await inner.inside(isolation: isolation, body)
      await inner.finish()
      try transaction.requireNoRollback()
      transaction.release(location)
      return result
    } catch {
      await inner.finish()
      transaction.undo(to: location)
      throw error
    }
  }

  /// Calls `body` with the transaction when it is its turn: at once where no one has it, and else before every call that
  /// begins after this one. For calls that can't wait. Where it has ended by then, with an error.
  func whenFree(_ body: @escaping @Sendable (Result<WriteTransaction, any Error>) -> Void) {
    turn.acquire(nil) { [self] outcome in
      guard case .granted = outcome else { return body(.failure(Self.endedError)) }
      defer { turn.release() }
      body(
        Result {
          try transaction.check()
          return transaction
        })
    }
  }

  /// Returns when the calls that have begun before are done.
  func waitForTurn() async throws {
    try await takeTurn()
    turn.release()
  }

  /// No call is let in any more; one that has its turn is waited for, whatever becomes of the task.
  func finish() async {
    let waiting = Task(executorPreference: core.writerExecutor) { [turn] in
      try? await turn.acquire(nil, timeout: .seconds(1 << 30))
    }
    await waiting.value
    turn.close()
  }

  private func takeTurn() async throws {
    do {
      try await turn.acquire(nil, timeout: core.options.writerTimeout)
    } catch let error as DatabaseError where error.code == .closed {
      throw Self.endedError
    }
  }

  private func tryTakeTurn() throws -> Bool {
    try Task.checkCancellation()
    guard !turn.isClosed else { throw Self.endedError }
    return try turn.tryAcquire(nil)
  }
}

extension DatabaseCore {
  /// The `perform` that a synchronous write belongs to; nil inside of a closure, which belongs to its transaction.
  var performing: AsyncTransaction? {
    ThreadFrame.transaction(of: self) == nil ? AsyncTransaction.current(of: self) : nil
  }

  /// The one that a synchronous read belongs to.
  var performingRead: AsyncTransaction? {
    ThreadFrame.transaction(of: self) == nil ? AsyncTransaction.living(of: self) : nil
  }

  /// Throws inside of a transaction: for what needs several of its own.
  func requireNoTransaction(_ what: @autoclosure () -> String) throws {
    guard ThreadFrame.transaction(of: self) == nil, AsyncTransaction.living(of: self) == nil else {
      throw DatabaseError(.invalidArgument, "\(what()) inside a transaction; do it before or after the transaction")
    }
  }
}
