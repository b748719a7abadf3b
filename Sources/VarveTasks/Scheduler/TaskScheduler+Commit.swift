internal import Synchronization
internal import Varve

/// The writes of the scheduler. Everything to do goes into one independent commit.
extension TaskScheduler {
  typealias Plans = [(run: TaskRun, plan: TaskPlan)]

  func commit(_ work: TurnWork, _ database: Database, _ start: UInt32) async {
    var work = work
    if !work.timeouts.isEmpty {
      // An attempt whose time has expired is settled before its handler is cancelled.
      work.settlements += work.timeouts.filter { $0.run.settle() }
      work.timeouts = []
    }
    do { try await write(work, database, start) } catch {
      if TaskDamage.isLasting(error) {
        await writeParts(of: work, database, start)
      } else {
        await fail([work], error, start)
      }
    }
  }

  /// Makes a commit, and applies its effects.
  ///
  /// With `leavesChildren`, the ends of tasks are not applied to the tasks that depend on them. The next start
  /// continues with these.
  func write(
    _ work: TurnWork, _ database: Database, _ start: UInt32, leavesChildren: Bool = false
  ) async throws {
    let (now, continuous) = (WallTime.milliseconds(clock.wallNow), clock.continuousNow)
    let plans = makePlans(work.settlements, now)
    let claims = work.claims.map { TaskEdit.claim($0.record, start: start, begun: now) }
    let ahead = work.ahead.map { TaskEdit.claim($0.record, start: start, begun: nil) }
    let (slots, leftSchedules) = dueSlots(work.schedules, now, atMost: work.slotMaximum)
    if plans.isEmpty, claims.isEmpty, ahead.isEmpty, slots.isEmpty, work.writesNothingElse { return }
    let aged = findAged(work.ageing, now, database, atMost: work.agedMaximum)
    let parents = dispatcher.withChildren(plans.lazy.filter(\.plan.state.isSettled).map(\.run.id))
    let recorded = recordedEvents(plans, work, now)
    // Attempts that end or begin, and tasks that become due, do not read each other's rows.
    let isBlind =
      parents.isEmpty && work.pending.isEmpty && work.requests.isEmpty && slots.isEmpty && aged.found.isEmpty
    let isStrict = plans.contains { $0.run.rules.strictDurableOrder }
    let begun = claims.isEmpty ? nil : clock.continuousNow
    let storesSchedules = slots.contains(where: \.isNew)
    await commitMutex.lock()
    defer { commitMutex.unlock() }
    // A call that removes such a schedule comes before this commit or after it.
    if storesSchedules { await scheduleMutex.lock() }
    defer { if storesSchedules { scheduleMutex.unlock() } }
    let (written, answers, lastSlots, changed) = try await database.commitIndependently(
      label: "tasks", durability: isStrict ? .power : .process
    ) { [dispatcher] parts in
      // The subqueues and timers of another start would not have the effects of this commit.
      if dispatcher.isReplaced(start) { throw DatabaseError(.closed, "the scheduler has stopped") }
      let changes = SchedulerChanges(
        try TaskParts(parts), now: now, continuous: continuous, dispatcher, childMaximum: work.childMaximum)
      // Before the ends: an attempt whose time is over ends in the same commit, which removes the row.
      for run in work.begun { try changes.noteBegun(run) }
      // First those that have waited, because a commit changes a limited number of children.
      for id in work.pending { try changes.resume(id) }
      var written: [Bool] = []
      written.reserveCapacity(plans.count)
      for (run, plan) in plans {
        let hasChildren = parents.contains(run.id)
        let edit = try hasChildren && !leavesChildren ? plan.edit(run, changes.parts) : plan.edit
        let isWritten = try isBlind ? changes.writeBlind(edit) : changes.write(edit)
        written.append(isWritten)
        if isWritten, hasChildren { try changes.settle(run.id, as: plan.state, leavesChildren: leavesChildren) }
      }
      try recorded.write(written, to: changes.parts)
      for (_, key) in work.due { try changes.makeReady(key) }
      let lastSlots = try slots.map { try write($0, to: changes, now) }
      if work.notesUnregistered { try noteUnregistered(changes.parts.config) }
      for (id, key) in aged.found { try Self.age(id, key, changes, dispatcher) }
      for claim in claims + ahead { _ = try isBlind ? changes.writeBlind(claim) : changes.write(claim) }
      for key in work.strayClaims { try changes.parts.live.delete(key) }
      let answers = try work.requests.map { try $0.write(to: changes, dispatcher) }
      for (queue, bucket) in work.tokens { try changes.parts.config.put(ConfigKeys.tokens(queue), bucket.bytes) }
      return (written, answers, lastSlots, try changes.finish())
    }
    if let begun { recorder.noteClaims(clock.continuousNow - begun) }
    finish(plans, written)
    noteRates(plans, written)
    dispatcher.apply(changed, of: start)
    dispatcher.didWrite(ahead: work.ahead, of: start)
    dispatcher.noteTurn(tasks: work.taskCount(slots, aged, childrenLeft: changed.childrenLeft))
    await end(work.requests, answers)
    endSlots(slots, lastSlots, left: leftSchedules)
    endAgeing(work.ageing, aged.rest)
    report(plans, written, changed.cancelled, work, now)
    // Also those of commits that failed.
    cancel(work.settlements.lazy.filter(\.isTimeout).map(\.run))
    for run in dispatcher.hand(work.claims, of: start) { begin(run) }
  }

  private func end(_ requests: [ChangeRequest], _ answers: [ChangeRequest.Answer]) async {
    for (request, answer) in zip(requests, answers) {
      request.end(answer)
      // A transaction is changing these tasks.
      if request.change == .cancelMissed, !answer.remaining.isEmpty {
        dispatcher.add(ChangeRequest(.cancelMissed, answer.remaining))??.wake()
        await Task.yield()
      }
    }
  }

  private func makePlans(_ settlements: [Settlement], _ now: Int64) -> Plans {
    var plans: Plans = []
    plans.reserveCapacity(settlements.count)
    for settlement in settlements {
      let rules = settlement.run.rules
      // An attempt whose plan is refused has been settled otherwise.
      guard let plan = try? TaskPlan(settlement, rules, now: now, chance: chance(settlement.run)) else { continue }
      plans.append((settlement.run, plan))
    }
    return plans
  }

  /// Returns a number from 0 to 1 for the delay after an attempt.
  private func chance(_ run: TaskRun) -> Double {
    guard let seed = configuration.jitterSeed else { return .random(in: 0...1) }
    var bytes: [UInt8] = []
    bytes.append(number: seed)
    bytes.append(number: run.id.rawValue)
    bytes.append(number: run.record.progress.attempt)
    return Double(StableHash.of(bytes) >> 11) * 0x1p-53
  }

  /// Applies the committed ends of attempts to the dispatcher.
  private func finish(_ plans: Plans, _ written: [Bool]) {
    let now = clock.continuousNow
    for ((run, plan), isWritten) in zip(plans, written) {
      if !isWritten {
        dispatcher.didSettle(run, nil, [])
        recorder.noteRefusal(of: run)
        continue
      }
      if plan.state == .dead { SchedulerLog.dead(logger, run, plan.error) }
      var entry: QueuedTask?
      if let next = plan.next {
        switch next.position.kind {
        case .queued: entry = QueuedTask(next, next.bytes)
        case .timed:
          dispatcher.insert(
            TimedTask(
              id: next.id, key: next.position.key(of: next.id), due: next.position.due,
              deadline: now + .milliseconds(next.delay)), of: run.start)
        case .parked, .blocked: break
        }
      }
      dispatcher.didSettle(
        run, entry, abandonTimers(of: run), isDone: plan.state == .done, sawCancel: plan.edit.removesCancel)
    }
  }

  /// Returns the timer that takes the worker from the handler of an attempt that has ended, or none if the handler has
  /// returned, or if nothing may overtake it.
  func abandonTimers(of run: TaskRun) -> [Timers.Entry] {
    let (isReleased, isOverdue) = run.state.withLock { ($0.isReleased, $0.isOverdue) }
    if isReleased || (run.rules.isSerial && !run.rules.leavesHandlers) { return [] }
    let wait = isOverdue ? .zero : configuration.abandonAfter.clipped
    return [
      Timers.Entry(
        deadline: clock.continuousNow + wait, wall: nil, suspending: clock.suspendingNow + wait,
        action: .abandon(run.id, epoch: run.epoch))
    ]
  }

  private func cancel(_ runs: some Sequence<TaskRun>) {
    for run in runs { run.state.withLock { $0.task }?.cancel() }
  }

  /// Undoes the work of a commit that failed, so that it is tried again, after a second unless the error is a conflict.
  ///
  /// `parts` are the parts of the work, the last one first. While the database is being closed it does not wait,
  /// because the close waits for it.
  func fail(_ parts: [TurnWork], _ error: any Error, _ start: UInt32) async {
    var isOver = false
    for work in parts {
      dispatcher.undo(work.claims, ahead: work.ahead, work.settlements)
      dispatcher.putBack(begun: work.begun)
      if dispatcher.requeue(work, of: start) { continue }
      for request in work.requests { request.fail(error) }
      isOver = true
    }
    if isOver { return }
    if dispatcher.worker.isStopping { return }
    // Transactions changed what the commit had read each time it was tried. This is not a fault: the next commit reads
    // their changes.
    if let error = error as? DatabaseError, error.code == .conflict { return await Task.yield() }
    SchedulerLog.failed(logger, error)
    try? await clock.sleep(until: clock.continuousNow + .seconds(1))
  }
}

extension TurnWork {
  /// Whether a commit has nothing to write besides ends of attempts, claims and slots.
  fileprivate var writesNothingElse: Bool {
    due.isEmpty && pending.isEmpty && ageing.isEmpty && requests.isEmpty && abandoned.isEmpty && begun.isEmpty
      && strayClaims.isEmpty && !notesUnregistered
  }

  /// Returns the number of tasks that a commit has handled: those of the work, and those that it has found.
  fileprivate func taskCount(_ slots: [DueSlots], _ aged: TaskScheduler.Aged, childrenLeft: Int) -> Int {
    taskCount + slots.reduce(0) { $0 + $1.slots.count } + aged.found.count + childMaximum - childrenLeft
  }
}
