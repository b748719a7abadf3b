/// What a handler does beside its own work. Closures stand at the registration only, and never on disk.
public struct HandlerOptions: Sendable {
  /// The delays after failures of tasks that were enqueued without any.
  public var retry = Retry.exponential()
  /// How long an attempt may last without `TaskContext.heartbeat()`, while the machine does not sleep: for handlers that work for something
  /// outside of the process, as another machine, which may be gone without a word. Then the attempt has failed as by its time limit, and
  /// the handler is cancelled. Nil: as long as it wants.
  public var lease: Duration?
  /// Asked first after a failure, with the number of failures so far; nil: the retries decide.
  public var onError: (@Sendable (_ error: any Error, _ failures: Int) -> Decision?)?

  /// What becomes of a task that has failed.
  public enum Decision: Hashable, Sendable {
    /// It runs again after a time.
    case retry(after: Duration)
    /// It waits for a person or a signal.
    case park(wakeOn: Set<WakeSignal> = [])
    /// It is dead.
    case discard(String)
  }

  /// An exponential delay after each failure.
  public init() {}
}

/// What runs the tasks of a kind in some queues.
final class RegisteredHandler: Sendable {
  let kind: String
  let selector: QueueSelector
  let options: HandlerOptions
  let body: @Sendable (TaskRun, any HandlerHost) async throws -> TaskOutcome

  init(
    _ kind: String, _ selector: QueueSelector, _ options: HandlerOptions,
    _ body: @escaping @Sendable (TaskRun, any HandlerHost) async throws -> TaskOutcome
  ) {
    self.kind = kind
    self.selector = selector
    self.options = options
    self.body = body
  }
}

/// The handlers of a scheduler.
struct TaskHandlers: Sendable {
  private var byKind: [String: [RegisteredHandler]] = [:]

  /// Throws where another handler would receive some of its tasks.
  mutating func add(_ handler: RegisteredHandler) throws(TaskError) {
    for other in byKind[handler.kind] ?? [] where isBoth(other.selector, handler.selector) {
      throw .overlappingHandlers(kind: handler.kind, other.selector, handler.selector)
    }
    byKind[handler.kind, default: []].append(handler)
  }

  /// Two that select the same queues by rules of one rank.
  private func isBoth(_ left: QueueSelector, _ right: QueueSelector) -> Bool { left.overlaps(right) }

  func find(_ kind: String, _ queue: QueueName) -> RegisteredHandler? {
    byKind[kind]?.first { $0.selector.contains(queue) }
  }

  var kinds: [String] { byKind.keys.sorted() }
}

/// What handlers call back.
protocol HandlerHost: AnyObject, Sendable {
  func report(_ fraction: Double, _ note: String?, of run: TaskRun)
  func requireLease(_ run: TaskRun) throws
  func keep(_ result: [UInt8], of run: TaskRun) throws
  func checkpoint(_ bytes: [UInt8], of run: TaskRun) async throws
  func lastCheckpoint(of run: TaskRun) throws -> [UInt8]?
}
