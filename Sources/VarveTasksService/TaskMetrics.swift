#if Service
  internal import Foundation
  public import Metrics
  internal import Synchronization
  public import Varve
  public import VarveTasks

  /// Reports task events, and what a scheduler does, as swift-metrics metrics.
  ///
  /// | name | kind | dimensions |
  /// |---|---|---|
  /// | `tasks_enqueued_total` | counter | kind, queue |
  /// | `tasks_settled_total` | counter | kind, queue, outcome |
  /// | `tasks_crashed_total`, `tasks_abandoned_total`, `cron_missed_total` | counters | kind, queue |
  /// | `tasks_unhandled_total`: kinds that were due and had no handler | counter | kind, queue |
  /// | `tasks_clock_set_back_total` | counter | |
  /// | `task_run_seconds` | timer | kind, queue |
  /// | `task_wait_seconds`, from the enqueueing to the first attempt | timer | kind, queue |
  /// | `tasks_in_state` | gauge | queue, state |
  /// | `tasks_fenced_total`: attempts whose end was refused, because they had lost their task | counter | |
  /// | `queue_head_age_seconds`: the age of the first waiting task, 0 if no task waits | gauge | queue |
  /// | `head_buffer_refill_skipped_keys`: `TaskSchedulerStatistics.refillSkippedCount` | gauge | |
  /// | `claim_seconds`, the duration of a commit in which attempts begin | timer | |
  /// | `timer_late_seconds`, the time by which a timer has fired late | timer | |
  ///
  /// The scheduler uses it as middleware, and `TaskService` counts events with it. The program calls
  /// `measure(scheduler)` as often as it wants `tasks_in_state` and the metrics below it updated. A task is counted as
  /// enqueued when the call is made, even if its transaction is rolled back. Safe from any thread.
  public struct TaskMetrics: TaskMiddleware {
    private let factory: any MetricsFactory
    private let reported = ReportedStatistics()

    /// Creates metrics of a factory, by default the program's factory.
    public init(factory: any MetricsFactory = MetricsSystem.factory) { self.factory = factory }

    private func counter(_ name: String, _ dimensions: [(String, String)]) -> Counter {
      Counter(label: name, dimensions: dimensions, factory: factory)
    }

    /// Counts a task that is being enqueued.
    public func enqueuing(_ kind: String, _ options: inout TaskOptions, in transaction: WriteTransaction) throws {
      counter("tasks_enqueued_total", [("kind", kind), ("queue", options.queue.text)]).increment()
    }

    /// Runs an attempt and measures its duration, and for a first attempt also the time since the task was enqueued.
    public func run(_ context: TaskContext, _ next: NextHandler) async throws
      -> TaskOutcome
    {
      let dimensions = [("kind", context.kind), ("queue", context.queue.text)]
      if context.attempt == 1 {
        let wait = max(0, Date().timeIntervalSince(context.enqueuedAt))
        Timer(label: "task_wait_seconds", dimensions: dimensions, factory: factory).recordSeconds(wait)
      }
      let begun = ContinuousClock.now
      defer {
        let (seconds, attoseconds) = (ContinuousClock.now - begun).components
        Timer(label: "task_run_seconds", dimensions: dimensions, factory: factory)
          .recordSeconds(Double(seconds) + Double(attoseconds) * 1e-18)
      }
      return try await next()
    }

    /// Counts the events of a sequence until it ends.
    public func count(_ events: AsyncStream<TaskEvent>) async {
      for await event in events {
        let dimensions = [("kind", event.payloadKind), ("queue", event.queue.text)]
        switch event.kind {
        case .done, .dead, .cancelled, .failed, .parked, .snoozed:
          counter("tasks_settled_total", dimensions + [("outcome", "\(event.kind)")]).increment()
        case .crashed: counter("tasks_crashed_total", dimensions).increment()
        case .abandoned: counter("tasks_abandoned_total", dimensions).increment()
        case .slotMissed: counter("cron_missed_total", dimensions).increment()
        case .unhandled: counter("tasks_unhandled_total", dimensions).increment()
        case .clockSetBack: Counter(label: "tasks_clock_set_back_total", factory: factory).increment()
        case .started, .timedOut, .interrupted: break
        }
      }
    }

    /// Reports what a scheduler has done since the last call, and the present state of its queues: the metrics from
    /// `tasks_in_state` on.
    ///
    /// Of the timers, each range of a histogram is recorded by its mean: see `TaskDurations`. The number of values is
    /// exact up to 10,000 values between two calls. If there are more, 10,000 are recorded in proportion to the ranges.
    /// A mean is truncated to nanoseconds, so the sum of the values is too small by less than 1 ns for each.
    ///
    /// Complexity: that of `measure(_:)` with a database, and of `TaskScheduler.queueHeads()`.
    public func measure(_ scheduler: TaskScheduler) async throws {
      try await measure(scheduler.database)
      let queues = try await scheduler.database.read { tx in try tx.taskQueues() }
      var ages: [QueueName: Duration] = [:]
      for head in try scheduler.queueHeads() { ages[head.queue] = head.age }
      for queue in queues {
        let seconds: Double = (ages[queue] ?? Duration.zero) / Duration.seconds(1)
        Gauge(label: "queue_head_age_seconds", dimensions: [("queue", queue.text)], factory: factory).record(seconds)
      }
      let (statistics, last) = reported.take(scheduler)
      counter("tasks_fenced_total", []).increment(by: statistics.fencedCount - (last?.fencedCount ?? 0))
      Gauge(label: "head_buffer_refill_skipped_keys", dimensions: [], factory: factory)
        .record(statistics.refillSkippedCount)
      record("claim_seconds", statistics.claims, since: last?.claims)
      record("timer_late_seconds", statistics.timers, since: last?.timers)
    }

    /// The maximum number of values of a timer that one call records.
    private static let valueMaximum = 10_000

    /// Records the durations that have been added to a distribution since it was `last`.
    private func record(_ name: String, _ durations: TaskDurations, since last: TaskDurations?) {
      let timer = Timer(label: name, dimensions: [], factory: factory)
      let total = durations.count - (last?.count ?? 0)
      for (index, bucket) in durations.buckets.enumerated() {
        let old = last?.buckets[index]
        let count = bucket.count - (old?.count ?? 0)
        if count <= 0 { continue }
        let mean: Duration = (bucket.sum - (old?.sum ?? Duration.zero)) / count
        let (seconds, attoseconds) = mean.components
        // More seconds have too many nanoseconds for 64 bits.
        let nanoseconds = min(seconds, 1 << 33) * 1_000_000_000 + attoseconds / 1_000_000_000
        // At least one value of each range is recorded, so that the rare longest ones are.
        let recorded = total <= Self.valueMaximum ? count : max(1, count * Self.valueMaximum / total)
        for _ in 0..<recorded { timer.recordNanoseconds(nanoseconds) }
      }
    }

    /// Sets the gauges for the number of tasks in each state. Any process that has the database open can call it.
    ///
    /// Complexity: 9 lookups for each queue, and one for each running task.
    public func measure(_ database: Database) async throws {
      let counts = try await database.read { tx in
        try tx.taskQueues().flatMap { queue in
          try TaskState.allCases.map { (queue, $0, try tx.taskCount(in: queue, $0)) }
        }
      }
      for (queue, state, count) in counts {
        Gauge(label: "tasks_in_state", dimensions: [("queue", queue.text), ("state", "\(state)")], factory: factory)
          .record(count)
      }
    }
  }

  /// The statistics of schedulers that were reported last.
  private final class ReportedStatistics: Sendable {
    private struct Entry {
      weak var scheduler: TaskScheduler?
      var statistics: TaskSchedulerStatistics
    }

    private let entries = Mutex<[Entry]>([])

    /// Returns the present statistics of a scheduler, and those that the last call returned for it, or `nil` if it is
    /// the first one.
    func take(_ scheduler: TaskScheduler) -> (present: TaskSchedulerStatistics, last: TaskSchedulerStatistics?) {
      entries.withLock { entries in
        entries.removeAll { $0.scheduler == nil }
        // They are read within the lock, so that of two calls at once none counts the same twice.
        let present = scheduler.statistics
        guard let index = entries.firstIndex(where: { $0.scheduler === scheduler }) else {
          entries.append(Entry(scheduler: scheduler, statistics: present))
          return (present, nil)
        }
        defer { entries[index].statistics = present }
        return (present, entries[index].statistics)
      }
    }
  }
#endif
