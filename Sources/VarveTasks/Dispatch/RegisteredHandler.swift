/// The options of a handler. They are given when it is registered, and are never stored on disk.
public struct HandlerOptions: Sendable {
  /// The delays after failures of tasks that were enqueued without delays of their own.
  public var retry: Retry
  /// The time that an attempt may last without `TaskContext.heartbeat()`, which must be positive, or `nil` if there is
  /// no limit.
  ///
  /// Time in which the machine sleeps does not count. A lease is for handlers that wait for something outside of the
  /// process, such as another machine, which may disappear silently. When the lease expires, the attempt fails as by
  /// its time limit, and the handler is cancelled.
  public var lease: Duration?
  /// A closure that decides first after a failure, given the number of failures so far.
  ///
  /// If it returns `nil`, or is `nil` itself, the retries of the task decide.
  public var onError: (@Sendable (_ error: any Error, _ failures: Int) -> Decision?)?

  /// The decision about a task that has failed.
  public enum Decision: Hashable, Sendable {
    /// The task runs again after a duration.
    case retry(after: Duration)
    /// The task waits for a call of `retryNow` or a signal.
    case park(wakeOn: Set<WakeSignal> = [])
    /// The task is dead, for the given reason.
    case discard(String)
  }

  /// Creates options. Without values, the delay grows exponentially after each failure.
  public init(
    retry: Retry = .exponential(), lease: Duration? = nil,
    onError: (@Sendable (_ error: any Error, _ failures: Int) -> Decision?)? = nil
  ) {
    self.retry = retry
    self.lease = lease
    self.onError = onError
  }

  /// The reason why the options can't be used, or `nil` if they can.
  var refusal: String? {
    if let lease, lease <= .zero { return "the lease \(lease) is not positive" }
    return retry.refusal.map { "the retries of a handler: \($0)" }
  }
}

/// A handler that runs the tasks of a kind in some queues.
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
///
/// Those of single queues are in a dictionary: a program may have one for each of many queues, and each claim looks up
/// its handler.
struct HandlerRegistry: Sendable {
  /// The handlers of one kind.
  private struct OfKind: Sendable {
    var named: [QueueName: RegisteredHandler] = [:]
    /// The handlers of prefixes, or of all queues.
    var others: [RegisteredHandler] = []

    /// Returns a handler that would receive some of the tasks of a handler with a selector, or `nil` if no handler
    /// would.
    func overlapping(_ selector: QueueSelector) -> RegisteredHandler? {
      if case .named(let queue) = selector { return find(queue) }
      return others.first { $0.selector.overlaps(selector) } ?? named.first { selector.contains($0.key) }?.value
    }

    func find(_ queue: QueueName) -> RegisteredHandler? {
      named[queue] ?? others.first { $0.selector.contains(queue) }
    }
  }

  private var byKind: [String: OfKind] = [:]

  /// Adds a handler. Throws `TaskError.overlappingHandlers` if another handler would receive some of its tasks.
  mutating func add(_ handler: RegisteredHandler) throws(TaskError) {
    if let other = byKind[handler.kind]?.overlapping(handler.selector) {
      throw .overlappingHandlers(kind: handler.kind, other.selector, handler.selector)
    }
    if case .named(let queue) = handler.selector {
      byKind[handler.kind, default: OfKind()].named[queue] = handler
    } else {
      byKind[handler.kind, default: OfKind()].others.append(handler)
    }
  }

  /// Adds a handler that overlaps no other one. Returns false if it was added before.
  mutating func addIfNew(_ handler: RegisteredHandler) -> Bool {
    do {
      try add(handler)
      return true
    } catch { return false }
  }

  func find(_ kind: String, _ queue: QueueName) -> RegisteredHandler? { byKind[kind]?.find(queue) }

  var kinds: [String] { byKind.keys.sorted() }
}

/// The operations that handlers call.
protocol HandlerHost: AnyObject, Sendable {
  func report(_ fraction: Double, _ note: String?, of run: TaskRun)
  func requireLease(_ run: TaskRun) throws
  func keep(_ result: [UInt8], of run: TaskRun) throws
  func checkpoint(_ bytes: [UInt8], of run: TaskRun) async throws
  func lastCheckpoint(of run: TaskRun) throws -> [UInt8]?
}
