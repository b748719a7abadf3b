internal import Synchronization
internal import Varve

extension TaskScheduler {
  /// What happens to tasks from now on, in this process. Each call makes a sequence of its own; where it is read too slowly older events
  /// are left out. It ends with the Swift task that reads it.
  ///
  /// ```swift
  /// for await event in scheduler.events where event.kind == .dead { alert(event.id, event.detail) }
  /// ```
  /// Safe from any thread. Where no caller reads them events cost nothing.
  public var events: AsyncStream<TaskEvent> { hub.stream() }

  /// What a settlement has done, as an event.
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

  /// Events of plans that the database keeps, with the index of each plan.
  struct RecordedEvents: Sendable {
    var events: [(plan: Int, event: TaskEvent)] = []
    var first: UInt64 = 0

    func write(_ written: [Bool], to parts: TaskParts) throws {
      for (offset, (plan, event)) in events.enumerated() where plan >= written.count || written[plan] {
        try TaskEventRecord.put(event, first + UInt64(offset), to: parts.events)
      }
    }
  }

  func recordedEvents(_ plans: Plans, _ now: Int64) -> RecordedEvents {
    var recorded = RecordedEvents()
    for (index, (run, plan)) in plans.enumerated() where plan.state != .done {
      let event = event(run, plan, now)
      if plan.isTimeout, configuration.keptEvents.contains(.timedOut) {
        recorded.events.append((index, self.event(.timedOut, run, now)))
      }
      if configuration.keptEvents.contains(event.kind) { recorded.events.append((index, event)) }
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

  /// Listeners receive what was committed.
  func report(_ plans: Plans, _ written: [Bool], _ cancelled: [TaskRecord], _ claims: [TaskRun], _ now: Int64) {
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
    for run in claims { events.append(event(.started, run, now)) }
    hub.send(events)
  }

  /// A task was done by its handler's own transaction.
  func reportDone(_ run: TaskRun) {
    if hub.isActive { hub.send([event(.done, run, WallTime.milliseconds(clock.wallNow))]) }
  }
}
