/// A running `perform`: the write transaction that the calls inside its closure share.
///
/// The calls find it by a task-local value, so that child tasks find it too; their calls take turns. It holds the
/// writer from its beginning to its end, whatever it waits for meanwhile.
///
/// # Concurrency
/// The transaction is accessed by the caller that has the turn, one at a time, on any thread: on the calling thread if
/// nothing has to be waited for there, and otherwise on one of the database's own.
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

  /// Returns the innermost `perform` of a database in this task, even if it has ended: a task that was started inside
  /// it, and outlives it, still has it. Writes of that task throw then, because they were meant for that transaction.
  static func current(of core: DatabaseCore) -> AsyncTransaction? { running.last { $0.core === core } }

  /// Returns the innermost `perform` of a database in this task that has not ended. Reads after its end are ordinary
  /// reads.
  static func living(of core: DatabaseCore) -> AsyncTransaction? {
    running.last { $0.core === core && !$0.turn.isClosed }
  }

  private static var endedError: DatabaseError {
    DatabaseError(
      .transactionEnded,
      "the call belongs to a perform that has ended: a task that was started in its closure has outlived it; wait for "
        + "the task inside, or start it outside or detached")
  }

  /// Runs `body` so that the calls inside it find this transaction.
  func inside<Result>(
    isolation: isolated (any Actor)?, _ body: () async throws -> Result
  ) async rethrows -> Result {
    try await Self.$running.withValue(Self.running + [self], operation: body, isolation: isolation)
  }

  /// Runs `body` with the transaction at its turn, on a thread that may wait for a disk.
  func run<Result: Sendable>(_ body: @Sendable (WriteTransaction) throws -> Result) async throws -> Result {
    try await inTurn(isInline: core.backend.isInMemory) {
      try transaction.check()
      return try ThreadFrame.run(transaction, body)
    }
  }

  /// Runs `body` in a savepoint of its own at its turn, where writes of the database run.
  func nest<Result: Sendable>(_ body: @Sendable (WriteTransaction) throws -> Result) async throws -> Result {
    try await inTurn(isInline: core.writesOnCallingThread) {
      try transaction.check()
      return try ThreadFrame.run(transaction) { transaction in
        try transaction.savepoint { try body(transaction) }
      }
    }
  }

  /// Runs `body` at its turn. It runs on the current thread if `isInline` is true, the caller is not on an actor, and
  /// the turn is free.
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

  /// Gives the transaction to the storage, after the last call.
  func apply() async throws -> AppliedCommit {
    try await core.run(isInline: core.writesOnCallingThread, on: core.writerExecutor) {
      try core.apply(transaction, terms)
    }
  }

  /// Runs `body` with the transaction at its turn, on the caller's actor.
  func runIsolated<Result>(
    isolation: isolated (any Actor)?, _ body: (WriteTransaction) throws -> Result
  ) async throws -> Result {
    try await takeTurn()
    defer { turn.release() }
    try transaction.check()
    return try ThreadFrame.run(transaction, body)
  }

  /// Runs `body` with the transaction for synchronous code, whose thread waits for the turn.
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

  /// Runs `body` likewise, in a savepoint of its own.
  func nestHere<Result>(_ body: (WriteTransaction) throws -> Result) throws -> Result {
    try runHere { transaction in try transaction.savepoint { try body(transaction) } }
  }

  /// Runs a nested `perform`, which has the turn until its end. If it throws, only its own changes are undone.
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

  /// Calls `body` with the transaction at its turn, for calls that can't wait: at once if no call has the turn, and
  /// otherwise before every call that begins later. If the transaction has ended by then, `body` receives an error.
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

  /// Waits until the calls that have begun before are done.
  func waitForTurn() async throws {
    try await takeTurn()
    turn.release()
  }

  /// Prevents further calls, and waits for the one that has the turn, even if the task is cancelled.
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
  /// The `perform` that a synchronous write belongs to, or `nil` inside a closure, which belongs to its own
  /// transaction.
  var performing: AsyncTransaction? {
    ThreadFrame.transaction(of: self) == nil ? AsyncTransaction.current(of: self) : nil
  }

  /// The `perform` that a synchronous read belongs to.
  var performingRead: AsyncTransaction? {
    ThreadFrame.transaction(of: self) == nil ? AsyncTransaction.living(of: self) : nil
  }

  /// Throws inside a transaction, for operations that need several transactions of their own.
  func requireNoTransaction(_ what: @autoclosure () -> String) throws {
    guard ThreadFrame.transaction(of: self) == nil, AsyncTransaction.living(of: self) == nil else {
      throw DatabaseError(
        .invalidArgument,
        "\(what()) outside of transactions only, and this call is inside of one; make it before or after it")
    }
  }
}
