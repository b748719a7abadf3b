public import Foundation

/// How a task is queued and run: given when it is enqueued, and kept with it.
public struct TaskOptions: Hashable, Sendable {
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
  /// Words by which it can be found: at most 16, of at most 64 bytes.
  public var tags: [String] = []

  /// Those of a task that may run now, in the queue `"default"`.
  public init() {}

  /// Those of a queue.
  public init(queue: QueueName) { self.queue = queue }
}

/// When a task may run.
public enum Start: Hashable, Sendable {
  /// When it is its turn.
  case now
  /// Not before a date; one that has passed is now. Follows the clock of the wall, also where that is set.
  case at(Date)
  /// Not before a time has passed, whatever the clock of the wall shows. Not negative.
  case after(Duration)
  /// When a person says so (`retryNow`), or one of the signals comes.
  case parked(wakeOn: Set<WakeSignal> = [])
}

/// Whether a task that is done is kept.
public enum Retention: Hashable, Sendable {
  /// It is deleted.
  case deleteOnSuccess
  /// It is kept for so long.
  case keep(Duration)
}
