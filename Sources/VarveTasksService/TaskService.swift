#if Service
  public import ServiceLifecycle
  public import VarveTasks

  /// A service that runs a scheduler in a `ServiceGroup`.
  ///
  /// It starts the scheduler, and at a graceful shutdown it waits for running handlers as `TaskScheduler.stop` does.
  ///
  /// ```swift
  /// let group = ServiceGroup(services: [TaskService(scheduler)], gracefulShutdownSignals: [.sigterm], logger: logger)
  /// try await group.run()
  /// ```
  public struct TaskService: Service {
    private let scheduler: TaskScheduler
    private let metrics: TaskMetrics?

    /// Creates a service for a scheduler. If `metrics` is given, the service counts the scheduler's events with it.
    public init(_ scheduler: TaskScheduler, metrics: TaskMetrics? = nil) {
      self.scheduler = scheduler
      self.metrics = metrics
    }

    /// Runs tasks until a graceful shutdown, or until the Swift task is cancelled.
    ///
    /// Throws the errors of `TaskScheduler.start`.
    public func run() async throws {
      // The start itself sends events, such as those of tasks that have crashed.
      let events = metrics.map { _ in scheduler.events }
      try await scheduler.start()
      await withTaskGroup { group in
        if let metrics, let events { group.addTask { await metrics.count(events) } }
        try? await gracefulShutdown()
        await Task.detached { [scheduler] in await scheduler.stop() }.value
        group.cancelAll()
      }
    }
  }
#endif
