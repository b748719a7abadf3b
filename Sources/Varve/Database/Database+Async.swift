/// The asynchronous forms of the methods. The closures are synchronous here too: a transaction holds no snapshot and no
/// writer while a task is suspended. For that purpose there is `perform`.
///
/// The closures are awaited, so they may change variables of their caller, and use its random generators and other
/// values that it uses alone: the compiler checks that no other code can reach them meanwhile (`sending`). They run on
/// no actor, so an actor's state is out of their reach: `read(isolation:_:)` and `write(isolation:_:)` run a closure on
/// the actor, which waits meanwhile.
///
/// A call that could wait runs on threads of the database, with the task-locals and the cancellation of the caller, and
/// so does every closure that is called from an actor. A call that cannot wait runs on the calling thread, except on an
/// actor: a read of a database in memory, or a write that finds the writer free and a storage that keeps up. A load of
/// one instance (`store.load(id)`, `Book.load(id, in: database)`) that memtables and the cache answer runs on the
/// calling thread even on an actor.
///
/// Reads share a limited number of threads. Calls that wait for the writer are suspended, and calls that hold it run on
/// threads that reads cannot occupy. So they never need a thread of Swift's pool, which synchronous writers may block
/// completely.
extension Database {
  /// Reads one snapshot. Inside `perform`, it sees the writes of that transaction. Throws what `body` throws.
  ///
  /// If the task is cancelled, the next read of `body` throws `CancellationError`, and so does a scan, a sort or the
  /// verification of indexes that is under way. A read inside `perform` runs to its
  /// end once it has begun.
  public func read<Result: Sendable>(_ body: sending (ReadTransaction) throws -> Result) async throws -> Result {
    let core = core
    return try await withAwaited(body) { body in
      if let performing = AsyncTransaction.living(of: core) { return try await performing.run { try body($0) } }
      return try await core.run(isInline: core.backend.isInMemory, on: core.executor) { try core.readForTask(body) }
    }
  }

  /// Reads one row or number of a collection for a task of this module: on the calling thread if memory has the answer,
  /// and otherwise like any other read. A hop to another thread and back takes ten times as long as the read itself.
  ///
  /// `body` may run twice, which is why closures of the program are not read this way.
  func readMemoryFirst<Result: Sendable>(
    in collection: String, _ body: @Sendable (ReadTransaction) throws -> Result
  ) async throws -> Result {
    if let result = try core.readAtOnce(collection, body) { return result }
    return try await read(body)
  }

  /// Changes the database atomically: if `body` throws, nothing is changed. Inside `perform`, it is a savepoint.
  ///
  /// Returns when the commit was acknowledged. The closure never runs on an actor of the caller: from an actor, or if
  /// the writer is held or the storage does not keep up, the call moves to a thread of the database and back, which
  /// costs some tens of microseconds. Otherwise the closure runs on the calling thread. The task is suspended while it
  /// waits for a sync.
  ///
  /// A task that is cancelled while it waits for the writer throws `CancellationError` at once, and nothing was
  /// committed. Cancellation has no effect once the changes are submitted to the storage. Throws otherwise as the
  /// synchronous form does.
  @discardableResult
  public func write<Result: Sendable>(
    label: String? = nil, durability: StorageDurability? = nil, writerTimeout: Duration? = nil,
    _ body: sending (WriteTransaction) throws -> Result
  ) async throws -> Result {
    var terms = WriteTerms(label: label, durability: durability)
    terms.writerTimeout = writerTimeout
    let (core, callTerms) = (core, terms)
    return try await withAwaited(body) { body in
      if let performing = AsyncTransaction.current(of: core) { return try await performing.nest(body) }
      return try await core.writeSuspended(callTerms, body)
    }
  }

  /// Changes the database concurrently with other such writers: see the synchronous form. The closure may run several
  /// times, and what it changes of its caller's variables is changed each time.
  @discardableResult
  public func writeConcurrently<Result: Sendable>(
    label: String? = nil, durability: StorageDurability? = nil,
    _ body: sending (WriteTransaction) throws -> Result
  ) async throws -> Result {
    let (core, terms) = (core, WriteTerms(label: label, durability: durability))
    return try await withAwaited(body) { body in
      if let performing = AsyncTransaction.current(of: core) { return try await performing.nest(body) }
      return try await core.writeConcurrentlySuspended(terms, body)
    }
  }

  /// Reads and writes only independent parts of extensions (`PartDefinition.isIndependent`), without the writer, so
  /// also while a long transaction is open.
  ///
  /// ```swift
  /// try await database.commitIndependently { parts in
  ///   let queue = try parts.part("queue", of: jobs)
  ///   if let (key, _) = try queue.first() { try queue.delete(key) }
  /// }
  /// ```
  ///
  /// The keys that the closure reads are checked at the commit; if one has changed, the closure runs again, up to 64
  /// times, and then this throws `.conflict`. So the closure should do nothing but read and write through `parts`. If
  /// two calls write a key without reading it, the later one wins, and additions to counters never conflict.
  ///
  /// Returns when the commit was acknowledged. It waits for the batch that is being inserted, and for the sync of an
  /// earlier commit with the durability `.power`, but never for the writer. It runs no hook and produces no feed entry
  /// and no change set.
  ///
  /// Throws what the closure throws, `.readOnly`, `CancellationError` before an attempt, and `.outcomeUnknown`.
  @discardableResult
  public func commitIndependently<Result: Sendable>(
    label: String? = nil, durability: StorageDurability? = nil, _ body: sending (IndependentParts) throws -> Result
  ) async throws -> Result {
    let (core, terms) = (core, WriteTerms(label: label, durability: durability))
    return try await withAwaited(body) { body in try await core.commitIndependently(terms, body) }
  }

  /// The counters of the database's activity since it was opened. Safe from any thread.
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

  /// The executor on which databases are opened, before they have threads of their own.
  static let openings = DatabaseExecutor()

  /// Calls the blocking form, because `open` and `inMemory` mean the asynchronous ones in an asynchronous context.
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

  /// Closes the database as soon as the running transactions have ended, and the stop of a scheduler that the handler
  /// of a task has called.
  ///
  /// A second call waits for the first, and does nothing else. Throws `.writerBusy` without any effect inside `perform`
  /// and in the handler of a task, because it would wait for the end of that. Throws `.storage` if the storage fails
  /// while it is closed; as with the synchronous form, the database is closed nevertheless, and no commit is lost.
  public func close() async throws {
    try await core.closeWhenIdle()
  }
}

extension DatabaseCore {
  /// Waits for the writer, suspended, and runs `body` and its commit.
  func writeSuspended<Result: Sendable>(
    _ terms: WriteTerms, _ body: @Sendable (WriteTransaction) throws -> Result
  ) async throws -> Result {
    try enter()
    defer { leave() }
    try requireWritable()
    try Task.checkCancellation()
    let isOnActor = isActor(#isolation)
    if !isOnActor, writesOnCallingThread, try writer.acquireSoon(terms.label) {
      let (result, commit) = try runHoldingWriter(terms, body)
      try await commit.waitSuspended(in: self)
      return result
    }
    return try await writeInTurn(terms, body)
  }

  /// Waits for the writer, suspended, on the threads of writers, and runs `body` and its commit there.
  func writeInTurn<Result: Sendable>(
    _ terms: WriteTerms, _ body: @Sendable (WriteTransaction) throws -> Result
  ) async throws -> Result {
    try await writerExecutor.runTask {
      try await writer.acquire(terms.label, timeout: terms.timeout(options))
      let (result, commit) = try runHoldingWriter(terms, body)
      try await commit.waitSuspended(in: self)
      return result
    }
  }

  /// Whether a write may run on the calling thread if that blocks no actor: the storage keeps up. The task is suspended
  /// while it waits for the sync of a commit.
  var writesOnCallingThread: Bool { !backend.mayDelayCommits }

  /// Runs `body` on the calling thread if `isInline` is true and the thread is not an actor's, and otherwise on a
  /// thread that may wait.
  func run<Result: Sendable>(
    isInline: Bool, on executor: DatabaseExecutor, _ body: @Sendable () throws -> Result
  ) async throws -> Result {
    let isOnActor = isActor(#isolation)
    if isInline, !isOnActor { return try body() }
    return try await executor.run(body)
  }
}
