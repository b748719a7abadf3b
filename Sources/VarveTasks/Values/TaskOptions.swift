public import Foundation

/// How a task is queued and run: given when it is enqueued, and kept with it.
public struct TaskOptions: Hashable, Codable, Sendable {
  /// The queue.
  public var queue: QueueName = "default"
  /// Among the tasks of a queue smaller ones run first: 0 is the first, 128 is usual.
  public var priority: UInt8 = 128
  /// The order among those of a queue and priority, before the order of commits.
  public var sortKey: SortKey?
  /// When it may run.
  public var start = Start.now
  /// The delays after failures; nil: those of its handler.
  public var retry: Retry?
  /// After so many attempts a failure makes it dead; nil: without a limit. At least 1.
  public var maxAttempts: Int? = 25
  /// How long an attempt may take; nil: as long as it wants. Time in which the machine sleeps does not count.
  public var timeout: Duration?
  /// Whether it is kept after it is done.
  public var retention = Retention.deleteOnSuccess
  /// Which tasks are the same as this one, and what becomes of the second; nil: none is.
  public var unique: Uniqueness?
  /// Tasks of a queue that have the same key share the limits for a key, of `QueueRules.perKey` and `ratePerKey`, and the order in a
  /// serial queue: see `QueueRules.Order`. At most 255 bytes; nil: none.
  public var limitKey: String?
  /// Tasks that have to be done before this one runs: at most 1,000, each enqueued by this transaction or an earlier one. One that
  /// is gone counts as done. They never change.
  public var dependsOn: [TaskID] = []
  /// What becomes of the task when one that it depends on is dead or was cancelled.
  public var onParentFailure = ParentFailure.stayBlocked
  /// The group that it belongs to: the id of the task that runs when all of its group have ended. See
  /// `WriteTransaction.enqueueGroup(_:_:members:)`.
  public var group: TaskID?
  /// What travels with it for those around its handler, as the context of a trace: at most 4 KiB of names and values.
  public var headers: [String: String] = [:]
  /// Words by which it can be found: at most 16, of at most 64 bytes.
  public var tags: [String] = []

  /// Those of a task that may run now, in the queue `"default"`.
  public init() {}

  /// Those of a queue.
  public init(queue: QueueName) { self.queue = queue }
}

/// When a task may run.
public enum Start: Hashable, Codable, Sendable {
  /// When it is its turn.
  case now
  /// Not before a date; one that has passed is now. Follows the clock of the wall, also where that is set.
  case at(Date)
  /// Not before a time has passed, whatever the clock of the wall shows. Not negative.
  case after(Duration)
  /// When a person says so (`retryNow`), or one of the signals comes.
  case parked(wakeOn: Set<WakeSignal> = [])
}

/// What becomes of a task when one that it depends on is dead or was cancelled.
public enum ParentFailure: UInt8, Hashable, Codable, Sendable {
  /// It stays blocked, until that task is revived and done, or is deleted.
  case stayBlocked = 0
  /// It is cancelled, and so are those that depend on it, as they say.
  case cancel = 1
  /// It runs as if that task were done.
  case runAnyway = 2
}

/// Whether a task that is done, or was cancelled, is kept.
public enum Retention: Hashable, Codable, Sendable {
  /// It is deleted.
  case deleteOnSuccess
  /// It is kept for so long.
  case keep(Duration)
  /// The last ones of its queue are kept that say so, this many; at least 1. Older ones go within a minute.
  case keepCount(Int)
}
