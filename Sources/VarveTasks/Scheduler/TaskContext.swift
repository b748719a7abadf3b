public import Foundation
public import Logging
internal import Synchronization
public import Varve

/// The task that a handler runs, and the operations that the handler may perform on it. Safe from any thread.
public struct TaskContext: Sendable {
  let run: TaskRun
  let host: any CompletingHost
  private let base: Logger

  init(_ run: TaskRun, _ host: any CompletingHost, _ logger: Logger) {
    self.run = run
    self.host = host
    base = logger
  }

  /// The logger of the scheduler, with the task's id, kind, queue and attempt as metadata. It is made at each access.
  public var logger: Logger {
    var logger = base
    for (key, value) in SchedulerLog.metadata(run) { logger[metadataKey: key] = value }
    return logger
  }

  /// The id of the task. It is the same in each attempt, so that other systems can recognize repetitions.
  public var id: TaskID { run.id }
  /// A text by which other systems can recognize repetitions of the task.
  ///
  /// It is the same in each attempt, but differs for the task in a copy of the database.
  public var idempotencyKey: String {
    let digits = String(host.incarnation, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits + "-\(id)"
  }
  /// The name of the payload's type.
  public var kind: String { run.record.kind }
  /// The queue of the task.
  public var queue: QueueName { run.queue }
  /// The number of the attempt, from 1.
  public var attempt: Int { Int(run.record.progress.attempt) }
  /// The number of attempts that have failed before.
  public var failures: Int { Int(run.record.progress.failures) }
  /// The time at which the task was enqueued.
  public var enqueuedAt: Date { WallTime.date(run.record.enqueued) }
  /// Whether the task must be cancelled. If so, the handler's Swift task is cancelled, too.
  public var isCancelled: Bool { run.state.withLock { $0.isCancelling } }

  /// The slot of the schedule that enqueued the task, or `nil` if no schedule did.
  public var slot: TaskSlot? { TaskSlot(run.record.extras) }
  /// The headers that the task was enqueued with, for code around its handler.
  public var headers: [String: String] { run.record.extras.headers }
  /// Returns the progress of the group whose last task this is, or `nil` if the task is not the last one of a group.
  public func group() throws -> TaskGroupInfo? { run.record.extras.isGroup ? try host.group(of: run) : nil }

  /// Keeps a value as the task's result, of at most 64 KiB as JSON. The last value counts.
  ///
  /// Call it before `complete`. `TaskInfo.result` returns it while the task is kept after it is done
  /// (`TaskOptions.retention`). Throws `TaskError.tooLarge`, and `TaskError.leaseLost` if the attempt has ended
  /// already, also by `complete`.
  public func result(_ value: some Encodable) throws { try host.keep([UInt8](JSONEncoder().encode(value)), of: run) }

  /// Reports the progress of the handler, from 0 to 1: see `TaskScheduler.progress(of:)`.
  public func progress(_ fraction: Double, _ note: String? = nil) { host.report(fraction, note, of: run) }

  /// Renews the lease of the handler, if it has one (`HandlerOptions.lease`). It is for handlers that hold something
  /// outside of the database.
  ///
  /// Throws `TaskError.leaseLost` if the attempt has ended already, because its time limit or its lease has expired or
  /// the task was settled. What the handler returns is then ignored.
  public func heartbeat() throws { try host.renewLease(run) }

  /// Keeps a value for a later attempt, so that the handler can continue from there after a failure or the death of the
  /// process.
  ///
  /// The value is stored in the database when the call returns. The last value counts, and it is deleted with the task.
  /// It has at most 1 MiB as JSON. Throws `TaskError.tooLarge`, `TaskError.leaseLost` if the attempt has ended already,
  /// and the errors of the commit.
  public func checkpoint<State: Codable & Sendable>(_ state: State) async throws {
    try await host.checkpoint([UInt8](JSONEncoder().encode(state)), of: run)
  }

  /// Returns the value that was kept last, by this attempt or an earlier one, or `nil` if there is none.
  public func restored<State: Codable & Sendable>(_ type: State.Type) throws -> State? {
    guard let bytes = try host.lastCheckpoint(of: run) else { return nil }
    return try JSONDecoder().decode(type, from: Data(bytes))
  }

  /// Runs a write transaction in which the task is done: its writes and the end of the task are committed together or
  /// not at all.
  ///
  /// Therefore the effects in the database happen exactly once, even if the process dies. What the handler returns or
  /// throws later has no effect, and a warning in the log says so if that is not `.done`. If the scheduler has changed
  /// a task that `body` read or changed, `body` runs again. If a long transaction has the writer, the call waits for
  /// it, up to eight times as long as `DatabaseOptions.writerTimeout`. In all, `body` is tried up to eight times.
  ///
  /// Throws `TaskError.leaseLost`, without writing, if the attempt has ended already or the task was cancelled; the
  /// errors of `body`, after which the task still runs; and the errors of `Database.write`.
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
