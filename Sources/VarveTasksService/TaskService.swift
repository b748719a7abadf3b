#if Service
  public import ServiceLifecycle
  public import VarveTasks

  /// A scheduler as a service of a `ServiceGroup`: it starts, and at a graceful shutdown lets handlers end as `TaskScheduler.stop` does.
  ///
  /// ```swift
  /// let group = ServiceGroup(services: [TaskService(scheduler)], gracefulShutdownSignals: [.sigterm], logger: logger)
  /// try await group.run()
  /// ```
  public struct TaskService: Service {
    private let scheduler: TaskScheduler
    private let metrics: TaskMetrics?

    /// A service of a scheduler, which counts what happens to tasks where it is given metrics.
    public init(_ scheduler: TaskScheduler, metrics: TaskMetrics? = nil) {
      self.scheduler = scheduler
      self.metrics = metrics
    }

    /// Runs tasks until a graceful shutdown, or until the Swift task is cancelled. Throws as `TaskScheduler.start`.
    public func run() async throws {
      try await scheduler.start()
      await withTaskGroup { group in
        if let metrics { group.addTask { [scheduler] in await metrics.count(scheduler.events) } }
        try? await gracefulShutdown()
        await Task.detached { [scheduler] in await scheduler.stop() }.value
        group.cancelAll()
      }
    }
  }
#endif
