public import Foundation

/// The options that determine how a task is queued and run. They are given when it is enqueued, and stored with it.
public struct TaskOptions: Hashable, Codable, Sendable {
  /// The queue.
  public var queue: QueueName
  /// The priority among the tasks of the queue and limit key. Smaller numbers run first: 0 is the first, and 128 is
  /// usual. Limit keys take turns, whatever the priorities of their tasks are.
  public var priority: UInt8
  /// The order among the tasks of the same queue and priority, which takes precedence over the order of commits.
  public var sortKey: SortKey?
  /// The condition or time from which on the task may run.
  public var start: Start
  /// The delays after failures, or `nil` for those of the handler.
  public var retry: Retry?
  /// The number of attempts after which a failure makes the task dead, or `nil` if there is no limit. At least 1.
  public var maxAttempts: Int?
  /// The time limit of an attempt, or `nil` if there is none. Time in which the machine sleeps does not count.
  public var timeout: Duration?
  /// Whether the task is kept after it is done.
  public var retention: Retention
  /// The rule that keeps the task from being enqueued twice, or `nil` if it may be.
  public var unique: Uniqueness?
  /// A key whose tasks share limits, or `nil` for none. At most 255 bytes.
  ///
  /// Tasks of a queue that have the same key share the limits `QueueRules.perKey` and `ratePerKey`, and their order in
  /// a serial queue: see `QueueRules.Order`.
  public var limitKey: String?
  /// The tasks that must be done before this one runs: at most 1,000, each enqueued by this transaction or an earlier
  /// one.
  ///
  /// A task that no longer exists counts as done. The dependencies of a task never change.
  public var dependsOn: [TaskID]
  /// The reaction of the task when one that it depends on is dead or was cancelled.
  public var onParentFailure: ParentFailure
  /// The group that the task belongs to: the id of the task that runs when all tasks of the group have ended. See
  /// `WriteTransaction.enqueueGroup(_:_:members:)`.
  public var group: TaskID?
  /// Names and values for code around the handler, such as the context of a trace: at most 4 KiB.
  public var headers: [String: String]
  /// Words by which the task can be found: at most 16, of at most 64 bytes each.
  public var tags: [String]

  /// Creates options. Without values, they are those of a task that may run now, in the queue `"default"`.
  ///
  /// ```swift
  /// try tx.enqueue(Import(file: file), TaskOptions(queue: "imports", start: .after(.seconds(60)), tags: ["nightly"]))
  /// ```
  public init(
    queue: QueueName = "default", priority: UInt8 = 128, sortKey: SortKey? = nil, start: Start = .now,
    retry: Retry? = nil, maxAttempts: Int? = 25, timeout: Duration? = nil, retention: Retention = .deleteOnSuccess,
    unique: Uniqueness? = nil, limitKey: String? = nil, dependsOn: [TaskID] = [],
    onParentFailure: ParentFailure = .stayBlocked, group: TaskID? = nil, headers: [String: String] = [:],
    tags: [String] = []
  ) {
    self.queue = queue
    self.priority = priority
    self.sortKey = sortKey
    self.start = start
    self.retry = retry
    self.maxAttempts = maxAttempts
    self.timeout = timeout
    self.retention = retention
    self.unique = unique
    self.limitKey = limitKey
    self.dependsOn = dependsOn
    self.onParentFailure = onParentFailure
    self.group = group
    self.headers = headers
    self.tags = tags
  }
}

/// The condition or time from which on a task may run.
public enum Start: Hashable, Codable, Sendable {
  /// The task may run at once, in its turn.
  case now
  /// The task may not run before a date; one that has passed means now. It follows the time of day, even if that is
  /// set.
  case at(Date)
  /// The task may not run before a duration has passed, whatever the time of day is set to. It must not be negative.
  ///
  /// If the time of day is set forward while no scheduler runs, the task may run earlier.
  case after(Duration)
  /// The task runs after a call of `retryNow`, or when one of the signals is sent: at most 1,000, of at most 255 bytes
  /// each.
  case parked(wakeOn: Set<WakeSignal> = [])

  /// The reason why the value can't be used, or `nil` if it can.
  var refusal: String? {
    switch self {
    case .after(let delay) where delay < .zero: "a start after \(delay) is negative"
    case .at(let date) where !date.timeIntervalSince1970.isFinite:
      "a start at \(date.timeIntervalSince1970) seconds since 1970 is not a time"
    default: nil
    }
  }
}

/// The reaction of a task when one that it depends on is dead or was cancelled.
public enum ParentFailure: UInt8, Hashable, Codable, Sendable {
  /// The task stays blocked until the other task is revived and done, or is deleted.
  case stayBlocked = 0
  /// The task is cancelled, and the tasks that depend on it react by their own rules.
  case cancel = 1
  /// The task runs as if the other task were done.
  case runAnyway = 2
}

/// Whether a task is kept after it is done or was cancelled.
public enum Retention: Hashable, Codable, Sendable {
  /// The task is deleted.
  case deleteOnSuccess
  /// The task is kept for a duration.
  case keep(Duration)
  /// The given number of the last tasks of the queue with this option are kept, at least 1. Older ones are deleted
  /// within a minute.
  case keepCount(Int)
}
