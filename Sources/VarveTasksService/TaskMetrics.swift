#if Service
  public import Foundation
  public import Metrics
  public import Varve
  public import VarveTasks

  /// Reports task events as swift-metrics metrics.
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
  ///
  /// The scheduler uses it as middleware, and `TaskService` counts events with it. A task is counted as enqueued when
  /// the call is made, even if its transaction is rolled back. Safe from any thread.
  public struct TaskMetrics: TaskMiddleware {
    private let factory: any MetricsFactory

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
    public func run(_ context: TaskContext, _ next: TaskNext) async throws
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

    /// Sets the gauges for the number of tasks in each state. The program calls this as often as it wants them updated.
    ///
    /// Complexity: 8 lookups for each queue.
    public func measure(_ database: Database) async throws {
      let counts = try await database.read { tx in
        try tx.taskQueues().flatMap { queue in
          try TaskState.allCases.filter { $0 != .running }.map { (queue, $0, try tx.taskCount(in: queue, $0)) }
        }
      }
      for (queue, state, count) in counts {
        Gauge(label: "tasks_in_state", dimensions: [("queue", queue.text), ("state", "\(state)")], factory: factory)
          .record(count)
      }
    }
  }
#endif
