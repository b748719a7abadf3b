public import Foundation
public import Logging
internal import Synchronization
public import Varve

/// What a handler knows of the task that it runs, and what it can do with it. Safe from any thread.
public struct TaskContext: Sendable {
  let run: TaskRun
  let host: any CompletingHost
  private let base: Logger

  init(_ run: TaskRun, _ host: any CompletingHost, _ logger: Logger) {
    self.run = run
    self.host = host
    base = logger
  }

  /// The scheduler's, with the task's id, kind, queue and attempt. Made at each call.
  public var logger: Logger {
    var logger = base
    for (key, value) in TaskLog.metadata(run) { logger[metadataKey: key] = value }
    return logger
  }

  /// The task's identity: the same in each attempt, so that other systems recognise repetitions.
  public var id: TaskID { run.id }
  /// A text by which other systems recognise repetitions of the task: the same in each attempt, and another one for the task in a copy of
  /// the database.
  public var idempotencyKey: String {
    let digits = String(host.incarnation, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits + "-\(id)"
  }
  /// The name of its payload's type.
  public var kind: String { run.record.kind }
  /// Its queue.
  public var queue: QueueName { run.queue }
  /// The number of the attempt, from 1.
  public var attempt: Int { Int(run.record.progress.attempt) }
  /// How many attempts have failed before.
  public var failures: Int { Int(run.record.progress.failures) }
  /// When the task was enqueued.
  public var enqueuedAt: Date { WallTime.date(run.record.enqueued) }
  /// Whether the task is to be cancelled. The handler's Swift task is cancelled then, too.
  public var isCancelled: Bool { run.state.withLock { $0.isCancelling } }

  /// The slot of the schedule that enqueued it; nil: none did.
  public var slot: TaskSlot? { TaskSlot(run.record.extras) }
  /// What it was enqueued with for those around its handler.
  public var headers: [String: String] { run.record.extras.headers }
  /// What came of the group whose last task this is; nil: it is not the last one of a group.
  public func group() throws -> TaskGroupInfo? { run.record.extras.isGroup ? try host.group(of: run) : nil }

  /// Keeps a value as the task's result, of at most 64 KiB as JSON: `TaskInfo.result` has it while the task is kept after it is done
  /// (`TaskOptions.retention`). The last one counts. Throws `TaskError.leaseLost` where the attempt is over, also by `complete`.
  public func result(_ value: some Encodable) throws { try host.keep([UInt8](JSONEncoder().encode(value)), of: run) }

  /// Shows how far the handler is, from 0 to 1: `TaskScheduler.progress(of:)`.
  public func progress(_ fraction: Double, _ note: String? = nil) { host.report(fraction, note, of: run) }

  /// Renews the lease of the handler, where it has one (`HandlerOptions.lease`). Throws `TaskError.leaseLost` where the attempt is over
  /// already, because its time limit or its lease was, or the task was settled: then what the handler returns counts for nothing. For
  /// handlers that hold something outside of the database.
  public func heartbeat() throws { try host.renewLease(run) }

  /// Keeps a value for a later attempt, on disk when the call returns: where the handler continues after a failure or the death of
  /// the process. The last one counts; it goes with the task. At most 1 MiB as JSON.
  public func checkpoint<State: Codable & Sendable>(_ state: State) async throws {
    try await host.checkpoint([UInt8](JSONEncoder().encode(state)), of: run)
  }

  /// The value that was kept last, by this attempt or an earlier one; nil: none was.
  public func restored<State: Codable & Sendable>(_ type: State.Type) throws -> State? {
    guard let bytes = try host.lastCheckpoint(of: run) else { return nil }
    return try JSONDecoder().decode(type, from: Data(bytes))
  }

  /// Runs a write transaction in which the task is done: what it writes, and the end of the task, are committed together or not at
  /// all. So its effects in the database happen exactly once, whatever happens to the process. What the handler returns later does
  /// not matter any more. Where the scheduler has changed a task that `body` read or changed, `body` runs again, up to eight times.
  ///
  /// Throws `TaskError.leaseLost`, and writes nothing, where the attempt is over already; what `body` throws, with the task still
  /// running; and what `Database.write` throws.
  @discardableResult
  public func complete<Result: Sendable>(
    _ body: @escaping @Sendable (WriteTransaction) throws -> Result
  ) async throws -> Result {
    try await host.complete(run, body)
  }
}

/// A host whose handlers may settle their tasks in transactions of their own.
protocol CompletingHost: HandlerHost {
  var incarnation: UInt64 { get }
  func renewLease(_ run: TaskRun) throws
  func surround(_ context: TaskContext, _ body: @escaping @Sendable () async throws -> TaskOutcome) async throws
    -> TaskOutcome
  func group(of run: TaskRun) throws -> TaskGroupInfo?
  func complete<Result: Sendable>(
    _ run: TaskRun, _ body: @escaping @Sendable (WriteTransaction) throws -> Result
  ) async throws -> Result
}
