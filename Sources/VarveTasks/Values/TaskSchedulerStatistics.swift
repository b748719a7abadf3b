/// What a scheduler has done since it was created.
///
/// ```swift
/// let statistics = scheduler.statistics
/// let mean = statistics.claims.count > 0 ? statistics.claims.sum / statistics.claims.count : .zero
/// print(statistics.fencedCount, mean, statistics.timers.maximum)
/// ```
public struct TaskSchedulerStatistics: Hashable, Sendable {
  /// The number of attempts whose end was refused, because they had lost their task.
  ///
  /// An attempt loses its task when its time limit or its lease expires, or when its handler does not return in time
  /// after the task was cancelled or the scheduler was stopped. It counts once, when its handler returns or calls
  /// `TaskContext.complete(_:)`.
  public internal(set) var fencedCount = 0
  /// The number of rows that were read to fill subqueues from disk, and that were not queued: rows of tasks that run,
  /// or that ended while they were read, rows that can't be decoded, and all rows of a read that was discarded.
  ///
  /// A read is discarded if its subqueue is gone, or has to be read from an earlier row by then. Rows that were queued
  /// and cut from it again, because it was full, are not counted, and neither are the entries of deleted rows, which
  /// the storage itself passes.
  public internal(set) var refillSkippedCount = 0
  /// The durations of the commits in which attempts begin. Each commit counts once, however many attempts it begins.
  public internal(set) var claims = TaskDurations()
  /// The times by which timers have fired late: those of tasks, of the heads of serial queues, of schedules, time
  /// limits, leases, limits after a cancellation, abandonments, rates, and of tasks that move up because they have
  /// waited.
  ///
  /// A timer counts when it fires, also if nothing is left to do, for example because a lease was renewed. A task whose
  /// time had come before the start of the scheduler is due at the start. The timers of most tasks are only on disk if
  /// there are many: a timer that is read after its time is due at the read, and counts as punctual. If the time of day
  /// is set forward over a date, the timer of the date is late by the rest.
  public internal(set) var timers = TaskDurations()

  init() {}
}

/// A distribution of durations.
public struct TaskDurations: Hashable, Sendable {
  /// The durations of one range of a histogram.
  public struct Bucket: Hashable, Sendable {
    /// The number of durations.
    public internal(set) var count = 0
    /// The sum of the durations.
    public internal(set) var sum = Duration.zero
  }

  /// The longest duration, or 0 if there was none.
  public private(set) var maximum = Duration.zero
  /// A histogram: the first bucket has the durations below 1 µs, each of the others those below twice the limit of the
  /// bucket before it, and the last bucket also all that are longer.
  public private(set) var buckets = [Bucket](repeating: Bucket(), count: TaskDurations.bucketCount)

  /// The limit of the last bucket but one is 2^30 µs, which is about 18 minutes.
  private static let bucketCount = 32

  init() {}

  /// The number of durations.
  public var count: Int { buckets.reduce(0) { $0 + $1.count } }
  /// The sum of the durations.
  public var sum: Duration { buckets.reduce(.zero) { $0 + $1.sum } }

  /// Adds a duration. A negative one counts as 0.
  mutating func add(_ duration: Duration) {
    let duration = max(duration, .zero).clipped
    let (seconds, attoseconds) = duration.components
    let microseconds = seconds * 1_000_000 + attoseconds / 1_000_000_000_000
    let index = min(Int64.bitWidth - microseconds.leadingZeroBitCount, Self.bucketCount - 1)
    maximum = max(maximum, duration)
    buckets[index].count += 1
    buckets[index].sum += duration
  }
}
