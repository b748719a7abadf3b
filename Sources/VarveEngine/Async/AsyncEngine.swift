/// Asynchronous forms of the engine's calls, which run on threads of the engine.
///
/// ```swift
/// let value = try await engine.async.get(Array("key".utf8))
/// try await engine.async.put(Array("key".utf8), Array("value".utf8), durability: .power)
/// ```
///
/// A call of `Engine` may wait for a disk, and a task that waits blocks one of the few threads of Swift's
/// cooperative pool. A call of this type suspends the task instead. At most 16 threads run these calls for an
/// engine; further calls wait in order.
///
/// # Why they are not overloads of the same names
/// In an asynchronous function Swift always prefers the asynchronous one of two overloads. But a lookup in
/// the cache takes less than a microsecond, and a change of threads and back about ten. A caller that knows that a
/// call does not block must be able to call it directly, so the choice is explicit. `CommitTicket.wait` is the
/// exception, because it always waits for a disk.
///
/// # Cancellation
/// If the task is canceled while the call waits for a thread, the call throws `.canceled` and does nothing. A call
/// that has started runs to its end and returns its result. Closing the engine has the same effect; a call that comes
/// after the close throws `.closed`.
///
/// Safe from any thread and any actor.
public struct AsyncEngine: Sendable {
  let engine: Engine

  private func run<Value: Sendable>(
    _ body: @escaping @Sendable (Engine) throws(EngineError) -> Value
  ) async throws(EngineError) -> Value {
    try engine.core.requireOpen()
    return try await AsyncCall.run(on: engine.core.callThreads) { [engine] () throws(EngineError) in try body(engine) }
  }

  // MARK: - Reads

  /// Returns a copy of the value of a key, or nil if the key has no value. See `Engine.get`.
  public func get(
    _ key: [UInt8], in family: ColumnFamily? = nil, snapshot: EngineSnapshot? = nil
  ) async throws(EngineError) -> [UInt8]? {
    try await run { (engine) throws(EngineError) in try engine.get(key, in: family, snapshot: snapshot) }
  }

  /// Calls `body` with the value of a key, without copying the value, and returns its result.
  ///
  /// Returns `nil` if the key has no value. `body` runs on a thread of the engine. See `Engine.withValue`.
  public func withValue<Value: Sendable>(
    forKey key: [UInt8], in family: ColumnFamily? = nil, snapshot: EngineSnapshot? = nil,
    _ body: @escaping @Sendable (RawSpan) -> Value
  ) async throws(EngineError) -> Value? {
    try await run { (engine) throws(EngineError) in
      var value: Value?
      var failure: EngineError?
      do {
        value = unsafe try engine.withValue(forKey: key.span.bytes, in: family, snapshot: snapshot, body)
      } catch {
        // `body` does not throw, so the error is the engine's.
        failure = error as? EngineError ?? EngineError(.inputOutput, "the read failed", cause: error)
      }
      if let failure { throw failure }
      return value
    }
  }

  /// Returns whether a key has a value.
  public func contains(
    _ key: [UInt8], in family: ColumnFamily? = nil, snapshot: EngineSnapshot? = nil
  ) async throws(EngineError) -> Bool {
    try await run { (engine) throws(EngineError) in try engine.contains(key, in: family, snapshot: snapshot) }
  }

  /// Returns the values of several keys, all from one snapshot, in the order of the keys.
  public func multiGet(
    _ keys: [[UInt8]], in family: ColumnFamily? = nil, snapshot: EngineSnapshot? = nil
  ) async throws(EngineError) -> [[UInt8]?] {
    try await run { (engine) throws(EngineError) in try engine.multiGet(keys, in: family, snapshot: snapshot) }
  }

  // MARK: - Writes

  /// Sets the value of a key. See `Engine.put`.
  @discardableResult
  public func put(
    _ key: [UInt8], _ value: [UInt8], in family: ColumnFamily? = nil, durability: Durability? = nil
  ) async throws(EngineError) -> SequenceNumber {
    try await run { (engine) throws(EngineError) in
      try engine.put(key, value, in: family, durability: durability)
    }
  }

  /// Removes a key, whether it is there or not. See `Engine.delete`.
  @discardableResult
  public func delete(
    _ key: [UInt8], in family: ColumnFamily? = nil, durability: Durability? = nil
  ) async throws(EngineError) -> SequenceNumber {
    try await run { (engine) throws(EngineError) in try engine.delete(key, in: family, durability: durability) }
  }

  /// Removes a key that was put exactly once since it was last removed. See `Engine.singleDelete`.
  @discardableResult
  public func singleDelete(
    _ key: [UInt8], in family: ColumnFamily? = nil, durability: Durability? = nil
  ) async throws(EngineError) -> SequenceNumber {
    try await run { (engine) throws(EngineError) in
      try engine.singleDelete(key, in: family, durability: durability)
    }
  }

  /// Removes all keys from `lower` (included) to `upper` (excluded). See `Engine.deleteRange`.
  @discardableResult
  public func deleteRange(
    from lower: [UInt8], to upper: [UInt8], in family: ColumnFamily? = nil, durability: Durability? = nil
  ) async throws(EngineError) -> SequenceNumber {
    try await run { (engine) throws(EngineError) in
      try engine.deleteRange(from: lower, to: upper, in: family, durability: durability)
    }
  }

  /// Folds an operand into the value of a key, without reading it. See `Engine.merge`.
  @discardableResult
  public func merge(
    _ key: [UInt8], _ operand: [UInt8], in family: ColumnFamily? = nil, durability: Durability? = nil
  ) async throws(EngineError) -> SequenceNumber {
    try await run { (engine) throws(EngineError) in
      try engine.merge(key, operand, in: family, durability: durability)
    }
  }

  /// Runs `body` in a transaction and commits it; repeats this after each conflict, at most `attempts` times.
  ///
  /// `body` runs on a thread of the engine. See `Engine.transaction`.
  public func transaction<Value: Sendable>(
    isolation: TransactionIsolation = .serializable, durability: Durability? = nil, attempts: Int = 32,
    _ body: @escaping @Sendable (inout OptimisticTransaction) throws -> Value
  ) async throws -> Value {
    // The error that `body` throws can be of any type, so it is returned as a value.
    let result = try await run { (engine) throws(EngineError) in
      Result {
        try engine.transaction(isolation: isolation, durability: durability, attempts: attempts, body)
      }
    }
    return try result.get()
  }

  /// Commits a batch, and returns when it has the requested durability. See `Engine.write`.
  @discardableResult
  public func write(
    _ batch: consuming WriteBatch, durability: Durability? = nil
  ) async throws(EngineError) -> SequenceNumber {
    let box = BatchBox(batch)
    return try await run { (engine) throws(EngineError) in try engine.write(box.batch, durability: durability) }
  }

  /// Commits a batch, and returns when it is visible to reads. See `Engine.submit`.
  public func submit(
    _ batch: consuming WriteBatch, durability: Durability? = nil
  ) async throws(EngineError) -> CommitTicket {
    let box = BatchBox(batch)
    return try await run { (engine) throws(EngineError) in try engine.submit(box.batch, durability: durability) }
  }

  /// Makes every commit that was acknowledged so far survive a power loss.
  public func sync() async throws(EngineError) {
    try await run { (engine) throws(EngineError) in try engine.sync() }
  }

  // MARK: - Maintenance

  /// Writes every memtable to tables, and returns when they are durable.
  public func flush() async throws(EngineError) {
    try await run { (engine) throws(EngineError) in try engine.flush() }
  }

  /// Merges the tables of a range down to its last level. See `Engine.compact`.
  ///
  /// `progress` is called on a thread of the engine.
  public func compact(
    family: ColumnFamily? = nil, from lower: [UInt8]? = nil, to upper: [UInt8]? = nil,
    progress: (@Sendable (CompactionProgress) -> Void)? = nil
  ) async throws(EngineError) {
    try await run { (engine) throws(EngineError) in
      try engine.compact(family: family, from: lower, to: upper, progress: progress)
    }
  }

  /// Returns when no flush and no compaction is due.
  public func waitForCompaction() async throws(EngineError) {
    try await run { (engine) throws(EngineError) in try engine.waitForCompaction() }
  }

  /// Reads every live file and checks it. See `Engine.verify`.
  ///
  /// `progress` is called on a thread of the engine.
  public func verify(
    progress: (@Sendable (VerificationProgress) -> Void)? = nil
  ) async throws(EngineError) -> VerificationReport {
    try await run { (engine) throws(EngineError) in try engine.verify(progress: progress) }
  }

  /// Creates a second database at `target` with the content of this one, while this one is in use.
  ///
  /// See `Engine.checkpoint`.
  @discardableResult
  public func checkpoint(to target: String) async throws(EngineError) -> CheckpointReport {
    try await run { (engine) throws(EngineError) in try engine.checkpoint(to: target) }
  }

  /// Retries at once all work that failed. See `Engine.resume`.
  public func resume() async throws(EngineError) {
    try await run { (engine) throws(EngineError) in try engine.resume() }
  }

  /// Changes the memory budget of the open engine. See `Engine.setMemoryBudget`.
  public func setMemoryBudget(_ bytes: Int) async throws(EngineError) {
    try await run { (engine) throws(EngineError) in try engine.setMemoryBudget(bytes) }
  }

  /// Creates a family. See `Engine.createFamily`.
  public func createFamily(
    _ name: String, options: FamilyOptions = FamilyOptions()
  ) async throws(EngineError) -> ColumnFamily {
    try await run { (engine) throws(EngineError) in try engine.createFamily(name, options: options) }
  }

  /// Creates several families at once. See `Engine.createFamilies`.
  public func createFamilies(
    _ names: [String], options: FamilyOptions = FamilyOptions()
  ) async throws(EngineError) -> [ColumnFamily] {
    try await run { (engine) throws(EngineError) in try engine.createFamilies(names, options: options) }
  }

  /// Drops a family with all its entries. See `Engine.dropFamily`.
  public func dropFamily(_ family: ColumnFamily) async throws(EngineError) {
    try await run { (engine) throws(EngineError) in try engine.dropFamily(family) }
  }

  /// Runs one or several calls on a thread of the engine. Use it for calls that have no asynchronous form here, such as
  /// iterating with a cursor.
  public func perform<Value: Sendable>(
    _ body: @escaping @Sendable (Engine) throws(EngineError) -> Value
  ) async throws(EngineError) -> Value {
    try await run(body)
  }

  /// Opens a database without blocking the task's thread. See `Engine.open`.
  ///
  /// The open is not canceled once it has begun. A task that was canceled before gets `.canceled`.
  public static func open(
    at path: String, options: EngineOptions = EngineOptions(), environment: EngineEnvironment = .system
  ) async throws(EngineError) -> Engine {
    let threads = CallThreads(countMaximum: 1)
    defer { threads.endWithoutWaiting() }
    return try await AsyncCall.run(on: threads) { () throws(EngineError) in
      try Engine.open(at: path, options: options, environment: environment)
    }
  }

  /// Closes the engine. Waits for the calls that have started, and cancels those that wait. See `Engine.close`.
  ///
  /// The call itself is not canceled with its task, because a half-closed engine would be of no use.
  public func close() async throws(EngineError) {
    // The close does not run on one of the engine's threads, because it waits for them.
    let result = await withCheckedContinuation {
      (continuation: CheckedContinuation<Result<Void, EngineError>, Never>) in
      let close: @Sendable () -> Void = { [engine] in
        let result: Result<Void, EngineError>
        do throws(EngineError) { result = .success(try engine.close()) } catch { result = .failure(error) }
        continuation.resume(returning: result)
      }
      // Without another thread it blocks the present one.
      if let thread = EngineThread(ifPossible: "varve-close", body: close) { thread.detach() } else { close() }
    }
    try result.get()
  }
}

extension Engine {
  /// Asynchronous forms of the engine's calls, for use in tasks. They run on threads of the engine.
  public var async: AsyncEngine { AsyncEngine(engine: self) }
}

extension CommitTicket {
  /// Returns when the commit has the requested durability, without blocking a thread of the task.
  ///
  /// Throws `.outcomeUnknown` if the sync failed, and `.canceled` if the task was canceled before the wait started; the
  /// commit has happened in both cases.
  public func wait() async throws(EngineError) {
    guard needsWait else { return }
    try await engine.syncWaiters.waitUnlessCanceled(through: position, engine)
  }

  /// Returns when this commit and all earlier ones survive a power loss.
  ///
  /// This does not depend on the requested durability, nor on whether the task is canceled. Throws `.outcomeUnknown` if
  /// the sync failed.
  package func waitForSync() async throws(EngineError) {
    try await engine.syncWaiters.wait(through: engine.pipeline.log.appendedPosition, engine)
  }
}

/// A batch that a closure can keep.
private final class BatchBox: Sendable {
  let batch: WriteBatch
  init(_ batch: consuming WriteBatch) { self.batch = batch }
}
