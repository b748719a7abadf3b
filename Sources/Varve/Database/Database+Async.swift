/// The same doors for tasks. The closures are synchronous here too: a transaction holds no instant and no
/// writer while a task is suspended; `perform` is the door for that.
///
/// What could wait runs on threads of the database's own, with the task-locals and the cancellation of the caller.
/// What can't runs where it is called: a read of a database in memory, a write that finds the writer free, asks for
/// no sync, and meets no storage that is behind with its work, and the look for one instance (`store.load(id)`,
/// `Book.read(from: database).byKey(id)`) that memtables and cache answer.
extension Database {
  /// Reads one instant. Inside of `perform` it sees what that has written. Throws what `body` throws.
  public func read<Result: Sendable>(_ body: @Sendable (ReadTransaction) throws -> Result) async throws -> Result {
    if let performing = Performing.current(of: core) { return try await performing.run { try body($0) } }
    if core.backend.isInMemory { return try core.read(body) }
    let core = core
    return try await core.executor.run { try core.read(body) }
  }

  /// Changes the database: all of it, or where `body` throws nothing. Inside of `perform` it is a savepoint.
  ///
  /// Returns when the commit was acknowledged. A task that is cancelled while it waits for the writer throws
  /// `CancellationError` at once: nothing was committed. Once the changes are given to the storage, a
  /// cancellation does not matter any more. Throws else as the synchronous form does.
  @discardableResult
  public func write<Result: Sendable>(
    label: String? = nil, durability: StorageDurability? = nil,
    _ body: @Sendable (WriteTransaction) throws -> Result
  ) async throws -> Result {
    if let performing = Performing.current(of: core) { return try await performing.nest(body) }
    let core = core
    let terms = WriteTerms(label: label, durability: durability)
    try core.enter()
    defer { core.leave() }
    try core.requireWritable()
    try Task.checkCancellation()
    let isFree = try core.writer.tryAcquire(label)
    if !isFree { try await core.writer.acquire(label, timeout: core.options.writerTimeout) }
    let waitsForNothing = core.backend.isInMemory || (isFree && (durability ?? core.options.durability) == .process)
    let isInline = waitsForNothing && !core.backend.mayDelayCommits
    let (result, commit) =
      isInline
      ? try core.runHoldingWriter(terms, body)
      : try await core.executor.run { try core.runHoldingWriter(terms, body) }
    try await commit?.waitSuspended(in: core)
    return result
  }

  /// Changes the database beside other such writers: see the synchronous form.
  @discardableResult
  public func writeConcurrently<Result: Sendable>(
    label: String? = nil, durability: StorageDurability? = nil,
    _ body: @Sendable (WriteTransaction) throws -> Result
  ) async throws -> Result {
    if let performing = Performing.current(of: core) { return try await performing.nest(body) }
    let core = core
    let terms = WriteTerms(label: label, durability: durability)
    return try await core.executor.run { try core.writeConcurrently(terms, body) }
  }

  /// Opens a database without blocking the task's thread: see the synchronous form.
  public static func open(
    at path: String, definition: DatabaseDefinition = DatabaseDefinition(),
    options: DatabaseOptions = DatabaseOptions()
  ) async throws -> Database {
    try await DatabaseExecutor().run { try openHere(path, definition, options) }
  }

  /// The blocking form, for where `open` means the other.
  private static func openHere(
    _ path: String, _ definition: DatabaseDefinition, _ options: DatabaseOptions
  ) throws -> Database {
    try open(at: path, definition: definition, options: options)
  }

  /// Ends the database as soon as the transactions that run have ended. A second call does nothing.
  public func close() async throws {
    try await core.executor.run { [core] in try core.closeWhenIdle() }
  }
}
