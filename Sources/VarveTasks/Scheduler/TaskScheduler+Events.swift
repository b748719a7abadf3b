internal import Synchronization
internal import Varve

extension TaskScheduler {
  /// The events of tasks from now on, in this process. Each access makes a sequence of its own.
  ///
  /// A sequence that is read too slowly loses its oldest events. It ends when the scheduler stops, when the database is
  /// closed, and with the Swift task that reads it.
  ///
  /// ```swift
  /// for await event in scheduler.events where event.kind == .dead { alert(event.id, event.detail) }
  /// ```
  /// Safe from any thread. Events cost nothing while no caller reads them.
  public var events: AsyncStream<TaskEvent> { hub.stream() }

  /// Returns the event of the end of an attempt.
  private func event(_ run: TaskRun, _ plan: TaskPlan, _ now: Int64) -> TaskEvent {
    let kind: TaskEvent.Kind =
      switch plan.state {
      case .done: .done
      case .retryWait: .failed
      case .scheduled: .snoozed
      case .parked: .parked
      case .dead: .dead
      case .cancelled: .cancelled
      default: plan.isInterrupted ? .interrupted : .failed
      }
    return event(kind, run, now, plan.error)
  }

  private func event(_ kind: TaskEvent.Kind, _ run: TaskRun, _ now: Int64, _ detail: String? = nil) -> TaskEvent {
    let record = run.record
    return TaskEvent(kind, run.id, record.kind, run.queue, attempt: Int(record.progress.attempt), now, detail)
  }

  /// The events of a commit that the database keeps, each with the index of the plan that it depends on.
  struct RecordedEvents: Sendable {
    var events: [(plan: Int, event: TaskEvent)] = []
    /// The value instead of an index for an event that does not depend on whether a plan is written.
    static let always = Int.max
    var first: UInt64 = 0

    func write(_ written: [Bool], to parts: TaskParts) throws {
      for (offset, (plan, event)) in events.enumerated() where plan >= written.count || written[plan] {
        try TaskEventRecord.put(event, first + UInt64(offset), to: parts.events)
      }
    }
  }

  /// Returns the events of a commit that the database keeps: those of attempts that end, begin or were abandoned.
  func recordedEvents(_ plans: Plans, _ work: TurnWork, _ now: Int64) -> RecordedEvents {
    var recorded = RecordedEvents()
    let keepsDone = configuration.keptEvents.contains(.done)
    for (index, (run, plan)) in plans.enumerated() where plan.state != .done || keepsDone {
      let event = event(run, plan, now)
      if plan.isTimeout, configuration.keptEvents.contains(.timedOut) {
        recorded.events.append((index, self.event(.timedOut, run, now)))
      }
      if configuration.keptEvents.contains(event.kind) { recorded.events.append((index, event)) }
    }
    for (kind, runs) in [(TaskEvent.Kind.started, work.claims), (.abandoned, work.abandoned)]
    where !runs.isEmpty && configuration.keptEvents.contains(kind) {
      for run in runs { recorded.events.append((RecordedEvents.always, event(kind, run, now))) }
    }
    recorded.first = takeEventNumbers(recorded.events.count)
    return recorded
  }

  func takeEventNumbers(_ count: Int) -> UInt64 {
    if count == 0 { return 0 }
    return state.withLock { state in
      defer { state.nextEvent += UInt64(count) }
      return state.nextEvent
    }
  }

  /// Sends the events of a commit to the listeners.
  func report(_ plans: Plans, _ written: [Bool], _ cancelled: [TaskRecord], _ work: TurnWork, _ now: Int64) {
    guard hub.isActive else { return }
    var events: [TaskEvent] = []
    for ((run, plan), isWritten) in zip(plans, written) where isWritten {
      if plan.isTimeout { events.append(event(.timedOut, run, now)) }
      events.append(event(run, plan, now))
    }
    for record in cancelled {
      let queue = dispatcher.name(record.position.queue) ?? ""
      events.append(
        TaskEvent(
          .cancelled, record.id, record.kind, queue, attempt: Int(record.progress.attempt), now, record.errors.last))
    }
    for run in work.abandoned { events.append(event(.abandoned, run, now)) }
    for run in work.claims { events.append(event(.started, run, now)) }
    hub.send(events)
  }

  /// Sends the event that an attempt has begun.
  func reportBegun(_ run: TaskRun) {
    if hub.isActive { hub.send([event(.started, run, WallTime.milliseconds(clock.wallNow))]) }
  }

  /// Reports handlers that a stop has left running.
  func reportAbandoned(_ runs: [TaskRun]) async {
    let now = WallTime.milliseconds(clock.wallNow)
    // A handler that has returned meanwhile was not left.
    let events = runs.filter { run in !run.state.withLock { $0.isReleased } }.map { event(.abandoned, $0, now) }
    hub.send(events)
    do { try await keep(events) } catch { SchedulerLog.failed(logger, error) }
  }

  /// Reports kinds of tasks that have no handler.
  func reportUnhandled(_ tasks: [(record: TaskRecord, queue: QueueName)]) async {
    let now = WallTime.milliseconds(clock.wallNow)
    for (record, queue) in tasks { SchedulerLog.unhandled(logger, record, queue) }
    let events = tasks.map { record, queue in
      TaskEvent(.unhandled, record.id, record.kind, queue, attempt: Int(record.progress.attempt), now)
    }
    hub.send(events)
    guard configuration.keptEvents.contains(.unhandled) else { return }
    let first = takeEventNumbers(events.count)
    do {
      try await database.commitIndependently(label: "tasks: events") { parts in
        let part = try TaskParts(parts).events
        for (offset, event) in events.enumerated() { try TaskEventRecord.put(event, first + UInt64(offset), to: part) }
      }
    } catch { SchedulerLog.failed(logger, error) }
  }

  /// Stores the event that a task is done in the transaction of the handler that completes it, if such events are kept.
  func keepDone(_ run: TaskRun, _ now: Int64, in tx: WriteTransaction) throws {
    guard configuration.keptEvents.contains(.done) else { return }
    try TaskEventRecord.put(event(.done, run, now), takeEventNumbers(1), to: tx.tasks.parts.events)
  }

  /// Counts a task that was done by its handler's own transaction, and sends the event.
  func reportDone(_ run: TaskRun) {
    let key = TaskRates.Key(queue: run.queue, kind: run.record.kind)
    rates.note(CollectionOfOne((key, TaskRates.Counts(settled: 1))), at: clock.continuousNow)
    if hub.isActive { hub.send([event(.done, run, WallTime.milliseconds(clock.wallNow))]) }
  }
}
