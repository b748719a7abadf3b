/// The same doors for tasks. The closures are synchronous here too: a transaction holds no snapshot and no
/// writer while a task is suspended; `perform` is the method for that.
///
/// What could wait runs on threads of the database's own, with the task-locals and the cancellation of the caller, and
/// so does every closure that is called from an actor. What can't wait runs where it is called, except on an actor: a
/// read of a database in memory, a write that finds the writer free and meets a storage that keeps up;
/// and, also on an actor, the look for one instance (`store.load(id)`, `Book.load(id, in: database)`) that
/// memtables and cache answer.
///
/// Reads share a limited number of threads. What waits for the writer or has it is waited for suspended, and runs on
/// threads that reads can't take, so it never needs one of Swift's, which may all be blocked by synchronous writers.
extension Database {
  /// Reads one snapshot. Inside of `perform` it sees what that has written. Throws what `body` throws.
  public func read<Result: Sendable>(_ body: @Sendable (ReadTransaction) throws -> Result) async throws -> Result {
    if let performing = AsyncTransaction.living(of: core) { return try await performing.run { try body($0) } }
    let core = core
    return try await core.run(isInline: core.backend.isInMemory, on: core.executor) { try core.read(body) }
  }

  /// Changes the database: all of it, or where `body` throws nothing. Inside of `perform` it is a savepoint.
  ///
  /// Returns when the commit was acknowledged. The closure never runs on an actor of the caller: from an actor, or where
  /// the writer is held or the storage does not keep up, the call goes to a thread of the database and back, which costs
  /// some tens of microseconds. Elsewhere the closure runs where the call is made. A sync is waited for suspended. A task
  /// that is cancelled while it waits for the writer throws `CancellationError` at once: nothing was committed. Once the
  /// changes are given to the storage, a cancellation does not matter any more. Throws else as the synchronous form does.
  @discardableResult
  public func write<Result: Sendable>(
    label: String? = nil, durability: StorageDurability? = nil,
    _ body: @Sendable (WriteTransaction) throws -> Result
  ) async throws -> Result {
    if let performing = AsyncTransaction.current(of: core) { return try await performing.nest(body) }
    return try await core.writeSuspended(WriteTerms(label: label, durability: durability), body)
  }

  /// Changes the database beside other such writers: see the synchronous form.
  @discardableResult
  public func writeConcurrently<Result: Sendable>(
    label: String? = nil, durability: StorageDurability? = nil,
    _ body: @Sendable (WriteTransaction) throws -> Result
  ) async throws -> Result {
    if let performing = AsyncTransaction.current(of: core) { return try await performing.nest(body) }
    return try await core.writeConcurrentlySuspended(WriteTerms(label: label, durability: durability), body)
  }

  /// Reads and writes independent parts of extensions alone (`PartDefinition.isIndependent`), beside the writer: also while
  /// a transaction is open that takes long.
  ///
  /// ```swift
  /// try await database.commitAside { parts in
  ///   let queue = try parts.part("queue", of: jobs)
  ///   if let (key, _) = try queue.first() { try queue.delete(key) }
  /// }
  /// ```
  ///
  /// What the closure reads is checked when it commits; where it has changed the closure runs again, up to 64 times, then
  /// this throws `.conflict`. So the closure should do nothing but read and write through `parts`. Of two that write a
  /// key without reading it the later wins, and additions to counters conflict with nothing. Returns when the commit was
  /// acknowledged. It waits for the one batch that is being inserted, and for the sync of a commit with the durability
  /// `.power` before it; never for the writer. No hook, entry of the feed or change set comes of it.
  ///
  /// Throws what the closure throws, `.readOnly`, `CancellationError` before an attempt, and `.outcomeUnknown`.
  @discardableResult
  public func commitAside<Result: Sendable>(
    label: String? = nil, durability: StorageDurability? = nil, _ body: @Sendable (AsideParts) throws -> Result
  ) async throws -> Result {
    try await core.commitAside(WriteTerms(label: label, durability: durability), body)
  }

  /// What the database has done since it was opened. Safe from any thread.
  public var statistics: DatabaseStatistics { core.counts.statistics }

  /// Opens a database without blocking the task's thread: see the synchronous form.
  public static func open(
    at path: String, definition: DatabaseDefinition = DatabaseDefinition(),
    options: DatabaseOptions = DatabaseOptions()
  ) async throws -> Database {
    try await openings.run { try openHere(path, definition, options) }
  }

  /// Makes a database in memory without blocking the task's thread: see the synchronous form.
  public static func inMemory(
    definition: DatabaseDefinition = DatabaseDefinition(), options: DatabaseOptions = DatabaseOptions()
  ) async throws -> Database {
    try await openings.run { try inMemoryHere(definition, options) }
  }

  /// Opens a database over a storage of the program's own without blocking the task's thread: see the synchronous form.
  public static func open(
    _ backend: any StorageBackend, path: String, definition: DatabaseDefinition = DatabaseDefinition(),
    options: DatabaseOptions = DatabaseOptions()
  ) async throws -> Database {
    try await openings.run { try openHere(backend, path, definition, options) }
  }

  /// Opens a database, calls `body` with it, and closes it, also if `body` throws or the task is cancelled.
  ///
  /// ```swift
  /// try await Database.withOpen(at: path) { database in
  ///   try await database.write { tx in try tx.set("a", key: 1, in: "letters") }
  /// }
  /// ```
  ///
  /// Waits for the transactions that tasks of `body` left open. Throws what `open` and `close` throw, and what `body`
  /// throws, which is the error if `close` throws too.
  public static func withOpen<Result>(
    at path: String, definition: DatabaseDefinition = DatabaseDefinition(),
    options: DatabaseOptions = DatabaseOptions(), isolation: isolated (any Actor)? = #isolation,
    _ body: (Database) async throws -> Result
  ) async throws -> Result {
    let database = try await open(at: path, definition: definition, options: options)
    let result: Result
    do {
      result = try await body(database)
    } catch {
      try? await database.close()
      throw error
    }
    try await database.close()
    return result
  }

  /// Where databases are opened, before they have threads of their own.
  static let openings = DatabaseExecutor()

  /// The blocking forms, for where `open` and `inMemory` mean the others.
  private static func openHere(
    _ path: String, _ definition: DatabaseDefinition, _ options: DatabaseOptions
  ) throws -> Database {
    try open(at: path, definition: definition, options: options)
  }

  private static func inMemoryHere(_ definition: DatabaseDefinition, _ options: DatabaseOptions) throws -> Database {
    try inMemory(definition: definition, options: options)
  }

  private static func openHere(
    _ backend: any StorageBackend, _ path: String, _ definition: DatabaseDefinition, _ options: DatabaseOptions
  ) throws -> Database {
    try open(backend, path: path, definition: definition, options: options)
  }

  /// Ends the database as soon as the transactions that run have ended. A second call waits for the first, and does
  /// nothing else. Throws `.writerBusy` inside of `perform`, whose end it would wait for: nothing has happened then.
  /// Throws `.storage` where the storage fails while it is closed; as with the synchronous form, the database is closed
  /// then all the same, and no commit is lost.
  public func close() async throws {
    try await core.closeWhenIdle()
  }
}

extension DatabaseCore {
  /// Waits for the writer suspended, and runs `body` and its commit.
  func writeSuspended<Result: Sendable>(
    _ terms: WriteTerms, _ body: @Sendable (WriteTransaction) throws -> Result
  ) async throws -> Result {
    try enter()
    defer { leave() }
    try requireWritable()
    try Task.checkCancellation()
    let isOnActor = isActor(#isolation)
    if !isOnActor, writesInline, try writer.acquireSoon(terms.label) {
      let (result, commit) = try runHoldingWriter(terms, body)
      try await commit.waitSuspended(in: self)
      return result
    }
    return try await writeInLine(terms, body)
  }

  /// Waits for the writer suspended, on the threads of writers, and runs `body` and its commit there.
  func writeInLine<Result: Sendable>(
    _ terms: WriteTerms, _ body: @Sendable (WriteTransaction) throws -> Result
  ) async throws -> Result {
    try await writerExecutor.runTask {
      try await writer.acquire(terms.label, timeout: options.writerTimeout)
      let (result, commit) = try runHoldingWriter(terms, body)
      try await commit.waitSuspended(in: self)
      return result
    }
  }

  /// Whether a write may run where it is called, if no actor is kept from its work there: the storage keeps up. The sync of
  /// a commit is waited for suspended.
  var writesInline: Bool { !backend.mayDelayCommits }

  /// Runs `body` here if that is `isInline` and no actor's thread, or on a thread that may wait.
  func run<Result: Sendable>(
    isInline: Bool, on executor: DatabaseExecutor, _ body: @Sendable () throws -> Result
  ) async throws -> Result {
    let isOnActor = isActor(#isolation)
    if isInline, !isOnActor { return try body() }
    return try await executor.run(body)
  }
}
