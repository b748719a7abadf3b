internal import Synchronization
internal import Varve

/// What the scheduler writes: all that is to be done goes into one commit beside the writer.
extension TaskScheduler {
  typealias Plans = [(run: TaskRun, plan: TaskPlan)]

  func commit(_ work: TaskWork, _ database: Database) async {
    let (now, continuous) = (WallTime.milliseconds(clock.wallNow), clock.continuousNow)
    let start = state.withLock { $0.start }
    var settlements = work.settlements
    // An attempt whose time is over is settled before its handler is cancelled.
    let timeouts = work.timeouts.filter { $0.settle() }
    settlements += timeouts.map { TaskSettlement(run: $0, end: .timeout) }
    let plans = makePlans(settlements, now)
    let claims = work.claims.map { TaskEdit.claim($0.record, start: start, begun: now) }
    let slots = dueSlots(work.schedules, now)
    if plans.isEmpty, claims.isEmpty, work.due.isEmpty, work.pending.isEmpty, slots.isEmpty, work.ageing.isEmpty {
      return
    }
    let parents = dispatcher.withChildren(plans.lazy.filter(\.plan.state.isSettled).map(\.run.id))
    let recorded = recordedEvents(plans, now)
    let isStrict = plans.contains { $0.run.rules.strictDurableOrder }
    do {
      let (written, changed) = try await database.commitAside(
        label: "tasks", durability: isStrict ? .power : .process
      ) { [dispatcher] parts in
        let changes = AsideChanges(
          try TaskParts(parts), now: now, continuous: continuous, isHeld: { dispatcher.isHeld($0) })
        var written: [Bool] = []
        written.reserveCapacity(plans.count)
        for (run, plan) in plans {
          let isWritten = try changes.write(plan.edit)
          written.append(isWritten)
          if isWritten, parents.contains(run.id) { try changes.settle(run.id, as: plan.state) }
        }
        try recorded.write(written, to: changes.parts)
        for (_, key) in work.due { try changes.makeReady(key) }
        for id in work.pending { try changes.resume(id) }
        for slot in slots { try slot.write(to: changes, now: now) }
        for queue in work.ageing { try Self.age(queue, changes, now, self.rules(numbered: queue), dispatcher) }
        for claim in claims { _ = try changes.write(claim) }
        for (queue, bucket) in work.tokens { try changes.parts.config.put(ConfigKeys.tokens(queue), bucket.bytes) }
        return (written, try changes.finish())
      }
      finish(plans, written)
      dispatcher.apply(changed)
      endSlots(slots)
      endAgeing(work.ageing)
      report(plans, written, changed.cancelled, work.claims, now)
      cancel(timeouts)
      for run in dispatcher.start(work.claims) { begin(run) }
    } catch {
      await fail(work, settlements, error)
    }
  }

  private func makePlans(_ settlements: [TaskSettlement], _ now: Int64) -> Plans {
    var plans: Plans = []
    plans.reserveCapacity(settlements.count)
    for settlement in settlements {
      let rules = settlement.run.rules
      // What is refused was settled by another.
      guard let plan = try? TaskPlan(settlement, rules, now: now, chance: Double.random(in: 0...1)) else { continue }
      plans.append((settlement.run, plan))
    }
    return plans
  }

  /// Ends of attempts are committed.
  private func finish(_ plans: Plans, _ written: [Bool]) {
    let (now, suspending) = (clock.continuousNow, clock.suspendingNow)
    for ((run, plan), isWritten) in zip(plans, written) {
      if !isWritten {
        dispatcher.didSettle(run, nil, [])
        continue
      }
      if plan.state == .dead, let record = plan.next ?? Optional(run.record) { TaskLog.dead(logger, record, run.queue) }
      var timers: [TaskTimers.Entry] = []
      var entry: LineEntry?
      if let next = plan.next {
        switch next.position.kind {
        case .line: entry = LineEntry(next, next.bytes)
        case .timed:
          dispatcher.insert(
            TaskDelta.Timer(
              id: next.id, key: next.position.key(of: next.id), due: next.position.due,
              deadline: now + .milliseconds(next.delay)))
        case .parked, .blocked: break
        }
      }
      let rules = run.rules
      if !run.state.withLock({ $0.isReleased }), !rules.isSerial || rules.leavesHandlers {
        timers.append(
          TaskTimers.Entry(
            deadline: now + configuration.abandonAfter, wall: nil, suspending: suspending + configuration.abandonAfter,
            action: .abandon(run.id, epoch: run.epoch)))
      }
      dispatcher.didSettle(run, entry, timers, isDone: plan.state == .done)
    }
  }

  private func cancel(_ runs: [TaskRun]) {
    for run in runs { run.state.withLock { $0.task }?.cancel() }
  }

  /// The commit failed: all is as before, and is tried again after a second.
  private func fail(_ work: TaskWork, _ settlements: [TaskSettlement], _ error: any Error) async {
    if dispatcher.worker.isStopping { return }
    TaskLog.failed(logger, error)
    dispatcher.undo(work.claims, settlements)
    dispatcher.again(work)
    try? await clock.sleep(until: clock.continuousNow + .seconds(1))
  }

  // MARK: - Ageing

  /// So many tasks of each priority move up at once: those that come first.
  private static let agedMaximum = 512

  /// Tasks of a queue that have waited move up by one priority.
  private static func age(
    _ queue: UInt32, _ changes: AsideChanges, _ now: Int64, _ rules: QueueRules?, _ dispatcher: TaskDispatcher
  ) throws {
    guard let wait = rules?.ageing, rules?.isSerial == false else { return }
    let oldest = now - wait.milliseconds
    var moved: [TaskRecord] = []
    var counts: [LineID: [UInt8: Int]] = [:]
    var cursor = try changes.parts.live.cursor(StorageRange(prefix: TaskKeys.lines(queue)))
    while let (key, value) = try cursor.next() {
      let entry = try LineEntry(key: key, value: value)
      let record = try TaskRecord(value, stamp: entry.stamp)
      let line = record.position.line
      let count = counts[line]?[record.position.priority] ?? 0
      if count >= agedMaximum || record.position.priority == 0 || record.position.isFront { continue }
      if record.enqueued > oldest || dispatcher.isHeld(record.id) || dispatcher.run(record.id) != nil { continue }
      counts[line, default: [:]][record.position.priority] = count + 1
      moved.append(record)
    }
    for old in moved {
      var new = old
      new.position.priority -= 1
      try changes.move(old, &new)
    }
  }

  /// They move up again after the same time.
  private func endAgeing(_ queues: [UInt32]) {
    for queue in queues {
      guard let wait = rules(numbered: queue)?.ageing else { continue }
      dispatcher.insert(
        TaskTimers.Entry(
          deadline: clock.continuousNow + wait, wall: nil, suspending: nil, action: .ageing(queue)))
    }
  }

  private func rules(numbered queue: UInt32) -> QueueRules? { dispatcher.name(queue).map { rules(of: $0) } }
}
