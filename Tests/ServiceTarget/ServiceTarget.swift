#if Service
  import Foundation
  import InMemoryTracing
  import Logging
  import MetricsTestKit
  import ServiceLifecycle
  import Tracing
  import Varve
  @_spi(Testing) import VarveTasks
  import VarveTasksService
  import VarveTesting

  /// Runs tasks as a service until it is shut down, and checks all metrics and the traces: `varve-service-target`.
  ///
  /// The time is that of a clock that the program advances. The exit status is 0 only if everything is right.
  @main
  struct ServiceTarget {
    struct Work: TaskPayload {
      static let kind = "work"
      var number: Int
    }

    /// A task whose handler does not return until it is released, even if it is cancelled.
    struct Stuck: TaskPayload {
      static let kind = "stuck"
    }

    /// A task whose handler is registered late.
    struct Rare: TaskPayload {
      static let kind = "rare"
    }

    private let database: Database
    private let clock: ManualSchedulerClock
    private let logger = Logger(label: "target") { _ in SwiftLogNoOpLogHandler() }
    private let metrics = RecordedMetrics()
    private let taskMetrics: TaskMetrics
    private let tracer = InMemoryTracer()
    private let hold = Hold()

    private init() async throws {
      database = try await Database.inMemory { TaskStorage.handle }
      // A minute after the last full hour: the schedule has no slot until the program advances the clock to one.
      let hour = (Date().timeIntervalSince1970 / 3_600).rounded(.down) * 3_600
      clock = ManualSchedulerClock(wall: Date(timeIntervalSince1970: hour + 60))
      taskMetrics = TaskMetrics(factory: metrics.factory)
    }

    static func main() async throws {
      let target = try await ServiceTarget()
      let scheduler = try target.scheduler()
      scheduler.use(target.taskMetrics)
      scheduler.use(TaskTracing(tracer: target.tracer))
      try scheduler.schedule("hourly", "0 * * * *", rules: ScheduleRules(missed: .skip)) { _ in Work(number: 100) }
      try await target.serving(scheduler) {
        try await target.checkWork(scheduler)
        try await target.checkLateHandler(scheduler)
        try await target.checkTimeLimit(scheduler)
        try await target.checkQueues(scheduler)
        try await target.checkSchedule(scheduler)
      }
      try await target.checkRestart()
      try await target.database.close()
      print("services are right")
    }

    private func scheduler() throws -> TaskScheduler {
      let scheduler = try TaskScheduler(database, clock: clock, logger: logger)
      try scheduler.register(Work.self) { work, context in
        if work.number == 7 { return .discard("unlucky") }
        if work.number == 8, context.failures == 0 { return .retry(after: .zero) }
        return .done
      }
      try scheduler.register(Stuck.self) { [hold] _, _ in
        await hold.wait()
        return .done
      }
      return scheduler
    }

    /// Runs a scheduler as a service while `body` runs, and then shuts it down.
    private func serving(_ scheduler: TaskScheduler, _ body: () async throws -> Void) async throws {
      let group = ServiceGroup(services: [TaskService(scheduler, metrics: taskMetrics)], logger: logger)
      async let running: Void = group.run()
      do { try await body() } catch {
        // The service would wait for handlers that do not return.
        print(error)
        exit(1)
      }
      await group.triggerGracefulShutdown()
      try await running
    }

    // MARK: - The steps

    /// Ten tasks, of which one dies and one runs twice, and their traces.
    private func checkWork(_ scheduler: TaskScheduler) async throws {
      let traceID = try await enqueue()
      await metrics.reach("tasks_settled_total", 9, ["kind": "work", "outcome": "done"])
      await metrics.reach("tasks_settled_total", 1, ["kind": "work", "outcome": "dead"])
      try require(metrics.count("tasks_enqueued_total", ["kind": "work"]) == 10, "10 tasks are counted as enqueued")
      let runs = metrics.values("task_run_seconds", ["kind": "work"])
      try require(runs.count == 11, "11 attempts were measured, not \(runs.count)")
      let waits = metrics.values("task_wait_seconds", ["kind": "work"])
      try require(
        waits.count == 10 && waits.allSatisfy { (0...7_200_000_000_000).contains($0) },
        "the waits of the 10 first attempts were measured: \(waits)")
      let spans = tracer.finishedSpans.filter { $0.operationName == "task work" }
      try require(spans.count == 11, "11 attempts have a span, not \(spans.count)")
      try require(
        spans.allSatisfy { $0.context.inMemorySpanContext?.traceID == traceID },
        "the attempts continue the trace in which their tasks were enqueued")
    }

    /// Enqueues ten tasks in a span, and returns the span's trace.
    private func enqueue() async throws -> String? {
      try await tracer.withSpan("request") { [database] span in
        try await database.write { tx in
          for number in 0..<10 { try tx.enqueue(Work(number: number)) }
        }
        return span.context.inMemorySpanContext?.traceID
      }
    }

    /// A task without a handler, which three others overtake. When its handler is registered, the line is read again,
    /// and the read passes the rows of the three, which run.
    private func checkLateHandler(_ scheduler: TaskScheduler) async throws {
      hold.close()
      try await database.write { tx in
        try tx.enqueue(Rare())
        var options = TaskOptions()
        options.maxAttempts = 1
        options.timeout = .seconds(1)
        for _ in 0..<3 { try tx.enqueue(Stuck(), options) }
      }
      await metrics.reach("tasks_unhandled_total", 1, ["kind": "rare"])
      await metrics.wait { hold.count == 3 }
      try scheduler.register(Rare.self) { _, _ in .done }
      await metrics.reach("tasks_settled_total", 1, ["kind": "rare", "outcome": "done"])
      try await taskMetrics.measure(scheduler)
      try require(metrics.gauge("head_buffer_refill_skipped_keys") == 3, "a read has passed the rows of three tasks")
      try require(metrics.count("tasks_fenced_total") == 0, "no attempt has lost its task")
    }

    /// Three handlers that do not return in time. Their time limits expire 7 ms late, and ten seconds later they are
    /// abandoned.
    private func checkTimeLimit(_ scheduler: TaskScheduler) async throws {
      clock.advance(by: .milliseconds(1_007))
      await metrics.reach("tasks_settled_total", 3, ["kind": "stuck", "outcome": "dead"])
      clock.advance(by: .seconds(10))
      await metrics.reach("tasks_abandoned_total", 3, ["kind": "stuck"])
      hold.open()
      await metrics.wait { scheduler.statistics.fencedCount == 3 }
      // What was reported once is not reported again.
      for _ in 0..<2 { try await taskMetrics.measure(scheduler) }
      try require(metrics.count("tasks_fenced_total") == 3, "three attempts have lost their tasks")
      let late = metrics.values("timer_late_seconds").filter { $0 > 0 }
      try require(late == [7_000_000, 7_000_000, 7_000_000], "three timers were 7 ms late: \(late)")
      let claims = metrics.values("claim_seconds")
      try require(
        claims.count == scheduler.statistics.claims.count && (3...15).contains(claims.count),
        "each commit in which attempts began is measured: \(claims.count)")
    }

    /// A paused queue with one task, and a queue without tasks.
    private func checkQueues(_ scheduler: TaskScheduler) async throws {
      try await database.write { tx in
        try tx.pause("paused")
        try tx.enqueue(Work(number: 0), TaskOptions(queue: "paused"))
      }
      clock.advance(by: .seconds(30))
      try await taskMetrics.measure(scheduler)
      try require(
        metrics.gauge("tasks_in_state", ["queue": "paused", "state": "ready"]) == 1
          && metrics.gauge("tasks_in_state", ["queue": "default", "state": "ready"]) == 0
          && metrics.gauge("tasks_in_state", ["queue": "default", "state": "dead"]) == 4,
        "the tasks in each state are counted")
      try require(
        metrics.gauge("queue_head_age_seconds", ["queue": "paused"]) == 30
          && metrics.gauge("queue_head_age_seconds", ["queue": "default"]) == 0,
        "the first task of the paused queue has waited for 30 seconds")
    }

    /// Four times of a schedule that pass at once, more than a minute ago.
    private func checkSchedule(_ scheduler: TaskScheduler) async throws {
      try require(metrics.count("cron_missed_total") == 0, "no time of the schedule was missed")
      clock.advance(by: .seconds(4 * 3_600))
      await metrics.reach("cron_missed_total", 1, ["kind": "hourly", "queue": "default"])
    }

    /// A process that dies while a task runs, and a start after the clock was set back.
    private func checkRestart() async throws {
      hold.close()
      let first = try scheduler()
      try await first.start()
      try await database.write { tx in try tx.enqueue(Stuck()) }
      await metrics.wait { hold.count == 1 }
      first.die()
      hold.open()
      clock.setWall(clock.wallNow.addingTimeInterval(-7_200))
      let second = try scheduler()
      second.use(taskMetrics)
      try await serving(second) {
        await metrics.reach("tasks_crashed_total", 1, ["kind": "stuck"])
        await metrics.reach("tasks_clock_set_back_total", 1)
        await metrics.reach("tasks_settled_total", 1, ["kind": "stuck", "outcome": "done"])
      }
      let waits = metrics.values("task_wait_seconds", ["kind": "stuck"])
      try require(waits.count == 3, "only the first attempts have a wait: \(waits)")
    }
  }
#else
  /// A program without function: the service exists only with the trait.
  @main
  struct ServiceTarget {
    static func main() { print("built without the trait Service") }
  }
#endif
