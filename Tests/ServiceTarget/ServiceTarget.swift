#if Service
  import Foundation
  import InMemoryTracing
  import Logging
  import MetricsTestKit
  import ServiceLifecycle
  import Tracing
  import Varve
  import VarveTasks
  import VarveTasksService

  /// Runs tasks as a service until it is shut down, and checks the metrics and traces: `varve-service-target`.
  ///
  /// The exit status is 0 only if all of them are right.
  @main
  struct ServiceTarget {
    struct Work: TaskPayload {
      static let kind = "work"
      var number: Int
    }

    struct Wrong: Error, CustomStringConvertible { let description: String }
    struct Broken: Error {}

    static func main() async throws {
      let (metrics, tracer) = (TestMetrics(), InMemoryTracer())
      let database = try await Database.inMemory { TaskStorage.handle }
      let logger = Logger(label: "target") { _ in SwiftLogNoOpLogHandler() }
      let scheduler = try TaskScheduler(database, logger: logger)
      let taskMetrics = TaskMetrics(factory: metrics)
      scheduler.use(taskMetrics)
      scheduler.use(TaskTracing(tracer: tracer))
      try scheduler.register(Work.self) { work, context in
        if work.number == 7 { return .discard("unlucky") }
        if work.number == 8, context.failures == 0 { return .retry(after: .zero) }
        return .done
      }
      let group = ServiceGroup(
        services: [TaskService(scheduler, metrics: taskMetrics)], logger: logger)
      async let running: Void = group.run()
      let traceID = try await enqueue(database, tracer)
      while try await database.read({ tx in try tx.tasks(.all).contains { $0.progress.state != .dead } }) {
        await scheduler.waitUntilIdle()
      }
      try await taskMetrics.measure(database)
      // An event is counted after the change that it reports, so this waits.
      while (try? counter(metrics, "tasks_settled_total", "done")) != 9 { await Task.yield() }
      await group.triggerGracefulShutdown()
      try await running
      try require(try counter(metrics, "tasks_enqueued_total") == 10, "10 tasks are counted as enqueued")
      try require(try counter(metrics, "tasks_settled_total", "dead") == 1, "1 task is counted as dead")
      let runs = metrics.timers.filter { $0.label == "task_run_seconds" }.reduce(0) { $0 + $1.values.count }
      try require(runs == 11, "11 attempts were measured, not \(runs)")
      let spans = tracer.finishedSpans.filter { $0.operationName == "task work" }
      try require(spans.count == 11, "11 attempts have a span, not \(spans.count)")
      try require(
        spans.allSatisfy { $0.context.inMemorySpanContext?.traceID == traceID },
        "the attempts continue the trace in which their tasks were enqueued")
      try await database.close()
      print("services are right")
    }

    /// Enqueues ten tasks in a span, and returns the span's trace.
    private static func enqueue(_ database: Database, _ tracer: InMemoryTracer) async throws -> String? {
      try await tracer.withSpan("request") { span in
        try await database.write { tx in
          for number in 0..<10 { try tx.enqueue(Work(number: number)) }
        }
        return span.context.inMemorySpanContext?.traceID
      }
    }

    private static func counter(_ metrics: TestMetrics, _ label: String, _ outcome: String? = nil) throws -> Int64 {
      metrics.counters.filter { counter in
        counter.label == label
          && (outcome.map { wanted in
            counter.dimensions.contains { $0.0 == "outcome" && $0.1 == wanted }
          } ?? true)
      }.reduce(0) { $0 + $1.totalValue }
    }

    private static func require(_ isSo: Bool, _ what: String) throws {
      if !isSo { throw Wrong(description: what) }
    }
  }
#else
  /// A program without function: the service exists only with the trait.
  @main
  struct ServiceTarget {
    static func main() { print("built without the trait Service") }
  }
#endif
