internal import Foundation
public import Logging
internal import Synchronization
public import Varve

/// Runs a handler once, without a scheduler and without a stored task, for tests of handlers.
///
/// ```swift
/// let trial = TestWorker(database)
/// let outcome = try await trial.perform(SendMessage(messageKey: "m1")) { payload, context in
///   try await context.complete { tx in try tx.set(true, key: payload.messageKey, in: "sent") }
///   return .done
/// }
/// ```
/// `complete` commits what its closure writes. The trial keeps checkpoints, progress and results in memory. Safe from
/// any thread.
public final class TestWorker: Sendable {
  private let database: Database
  private let logger: Logger
  private let state = Mutex(State())

  private struct State {
    var checkpoint: [UInt8]?
    var progress: HandlerProgress?
    var result: [UInt8]?
  }

  /// Creates a trial with a database, which needs no tasks.
  public init(_ database: Database, logger: Logger = Logger(label: "varve.tasks.trial")) {
    self.database = database
    self.logger = logger
  }

  /// The progress that the handler has reported last, or `nil` if it has reported none.
  public var progress: HandlerProgress? { state.withLock { $0.progress } }

  /// Returns the result that the handler has kept, decoded from JSON, or `nil` if it has kept none.
  public func result<Value: Decodable>(as type: Value.Type) throws -> Value? {
    try state.withLock { $0.result }.map { try JSONDecoder().decode(type, from: Data($0)) }
  }

  /// Runs a closure as an attempt of a task with a payload. The payload is encoded and decoded as on disk.
  ///
  /// An attempt finds the checkpoints of attempts before it. Throws the errors of the closure and of the payload's
  /// coding.
  public func perform<Payload: TaskPayload>(
    _ payload: Payload, _ options: TaskOptions = Payload.defaults, attempt: Int = 1, failures: Int = 0,
    _ body: @escaping @Sendable (Payload, TaskContext) async throws -> TaskOutcome
  ) async throws -> TaskOutcome {
    let bytes = try Array(payload.encoded())
    try TaskDraft.check(Payload.kind, bytes, options)
    var progress = TaskProgress(.running)
    progress.attempt = UInt32(clamping: attempt)
    progress.failures = UInt32(clamping: failures)
    let position = TaskPosition(
      .queued, queue: 0, priority: options.priority, sortKey: options.sortKey?.bytes ?? [], stamp: 0, ordinal: 0)
    let record = TaskRecord(
      id: TaskID(rawValue: 1), progress: progress, position: position,
      enqueued: WallTime.milliseconds(SystemSchedulerClock().wallNow), kind: Payload.kind, version: Payload.version,
      payload: bytes, options)
    let handler = RegisteredHandler(Payload.kind, .all, HandlerOptions()) { _, _ in .done }
    let queueState = QueueState(0, options.queue, QueueRules(), isPaused: false, nil)
    let run = TaskRun(record, record, Subqueue(SubqueueID(queue: 0), queueState, isOnDisk: false), handler, start: 0)
    return try await body(Payload(encoded: Data(bytes)), TaskContext(run, self, logger))
  }

  /// Runs a handler as an attempt of a task: see the form with a closure.
  public func perform<Handler: TaskHandler>(
    _ payload: Handler.Payload, _ options: TaskOptions = Handler.Payload.defaults, attempt: Int = 1, failures: Int = 0,
    with handler: Handler
  ) async throws -> TaskOutcome {
    try await perform(payload, options, attempt: attempt, failures: failures) { try await handler.run($0, $1) }
  }
}

extension TestWorker: CompletingHost {
  func group(of run: TaskRun) throws -> TaskGroupInfo? { nil }

  func surround(_ context: TaskContext, _ body: @escaping @Sendable () async throws -> TaskOutcome) async throws
    -> TaskOutcome
  { try await body() }

  func report(_ fraction: Double, _ note: String?, of run: TaskRun) {
    state.withLock { $0.progress = HandlerProgress(fraction, note) }
  }

  var incarnation: UInt64 { database.incarnation }

  func renewLease(_ run: TaskRun) throws { try requireLease(run) }

  func requireLease(_ run: TaskRun) throws {
    if run.state.withLock({ $0.isSettled }) { throw TaskError.leaseLost(run.id) }
  }

  func keep(_ result: [UInt8], of run: TaskRun) throws {
    if result.count > TaskLimits.resultSize {
      throw TaskError.tooLarge(what: "a result", size: result.count, limit: TaskLimits.resultSize)
    }
    state.withLock { $0.result = result }
  }

  func checkpoint(_ bytes: [UInt8], of run: TaskRun) async throws {
    if bytes.count > TaskLimits.checkpointSize {
      throw TaskError.tooLarge(what: "a checkpoint", size: bytes.count, limit: TaskLimits.checkpointSize)
    }
    try requireLease(run)
    state.withLock { $0.checkpoint = bytes }
  }

  func lastCheckpoint(of run: TaskRun) throws -> [UInt8]? { state.withLock { $0.checkpoint } }

  func complete<Result: Sendable>(
    _ run: TaskRun, _ body: @escaping @Sendable (WriteTransaction) throws -> Result
  ) async throws -> Result {
    try requireLease(run)
    let result = try await database.write { tx in try body(tx) }
    run.state.withLock { $0.isSettled = true }
    return result
  }
}
