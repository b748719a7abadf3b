internal import FutexLocks
internal import Synchronization

/// Choosing what is due, what begins and what has ended. All methods are called with the dispatcher's lock held.
extension TaskDispatcher.State {
  // MARK: - Work of a turn

  /// Takes attempts that have ended, tasks whose children are left, and claims that are not needed any more.
  mutating func takeEnds(_ work: inout TurnWork, _ host: TaskDispatcher.Host) {
    let isDue = timers.first.map { $0.deadline <= host.clock.continuousNow } ?? false
    let room =
      TurnWork.share * ((subqueues.turns.isEmpty ? 0 : 1) + (parents.pending.isEmpty ? 0 : 1) + (isDue ? 1 : 0))
    work.settlements = running.takeSettlements(min(running.settlements.count, max(0, work.remaining - room)))
    for settlement in work.settlements { endEarly(settlement) }
    // Each of them may have very many children, which count, too.
    work.pending = parents.takePending(min(parents.pending.count, TurnWork.share / 2, work.remaining))
    work.strayClaims = running.ahead.takeStrays(min(running.ahead.strays.count, TurnWork.share, work.remaining))
  }

  // MARK: - Due work

  mutating func takeDue(_ work: inout TurnWork, _ host: TaskDispatcher.Host) {
    if timers.isEmpty, timers.end == nil { return }
    let clock = host.clock
    let (now, wall) = (clock.continuousNow, WallTime.passed(clock.wallNow))
    timers.followWall(clock, wall, now)
    var late: [Duration] = []
    // Timers leave room for the attempts that begin, and for the children of tasks that have ended.
    let room = min(host.workers, TurnWork.share) + (parents.pending.isEmpty ? 0 : TurnWork.share)
    while let first = timers.first, first.deadline <= now,
      work.remaining > room + (Self.findsTasks(first.action) ? TurnWork.share : 0)
    {
      guard var entry = timers.popFirst() else { break }
      work.timerCount += 1
      if let due = entry.wall, due > wall {
        // The wall clock was set back, and the timer must not fire early.
        entry.deadline = now + max(WallTime.wait(from: clock.wallNow, to: due), .microseconds(50))
        timers.insert(entry)
        continue
      }
      if let suspending = entry.suspending, suspending > clock.suspendingNow {
        entry.deadline = now + (suspending - clock.suspendingNow)
        timers.insert(entry)
        continue
      }
      if isDiskFull, Self.makesReady(entry.action) {
        entry.deadline = now + Self.fullDiskLook
        timers.insert(entry)
        continue
      }
      late.append(now - entry.deadline)
      fire(entry.action, &work)
    }
    host.recorder.noteTimers(late)
    if needsTimers, subqueues.isDiscovered { work.timersFrom = timers.beginLoading() }
  }

  /// Returns whether the commit finds the tasks that are due by a timer, for which a share of it is left.
  private static func findsTasks(_ action: Timers.Action) -> Bool {
    switch action {
    case .schedule, .ageing: true
    case .task, .subqueue, .tokens, .unregistered, .timeout, .lease, .abandon, .cancelOver, .child, .suspect: false
    }
  }

  /// The time after which a full disk is looked at again: the space returns without a notice.
  static let fullDiskLook = Duration.seconds(1)

  /// Returns whether a timer makes tasks ready that could not begin on a full disk, or writes a row.
  private static func makesReady(_ action: Timers.Action) -> Bool {
    switch action {
    case .task, .unregistered: true
    default: findsTasks(action)
    }
  }

  private mutating func fire(_ action: Timers.Action, _ work: inout TurnWork) {
    switch action {
    case .task(let id, let key):
      // A transaction that is changing the task finds it at its position, so it becomes ready after that.
      if held[id] != nil {
        holds.noteDue(id, key)
      } else {
        work.due.append((id, key))
        loop.changing.insert(id)
      }
    case .subqueue(let id, let key):
      guard let subqueue = subqueues[id] else { return }
      subqueue.wakeFirst(key)
      subqueues.enqueue(subqueue)
    case .tokens(let id):
      guard let subqueue = subqueues[id] else { return }
      subqueue.waitsForToken = false
      subqueues.enqueue(subqueue)
    case .schedule(let name): work.schedules.append(name)
    case .unregistered: work.notesUnregistered = true
    case .ageing(let queue):
      if let queueState = subqueues.queues[queue], queueState.subqueueCount > 0 {
        work.ageing.append(queue)
      } else {
        subqueues.ageing.remove(queue)
      }
    case .timeout(let id, let epoch):
      if let run = running.run(id, epoch) { work.timeouts.append(Settlement(run: run, end: .timeout)) }
    case .lease(let id, let epoch): fireLease(id, epoch, &work)
    case .cancelOver(let id, let epoch):
      guard let run = running.run(id, epoch), !run.state.withLock({ $0.isReleased }) else { return }
      run.state.withLock { $0.isOverdue = true }
      let end = AttemptEnd.failure("the handler did not return after the task was cancelled", nil)
      work.timeouts.append(Settlement(run: run, end: end))
    case .abandon(let id, let epoch):
      guard let run = running.takeAbandonable(AttemptKey(id: id, epoch: epoch)) else { return }
      work.abandoned.append(run)
      release(run)
    case .child(let id, let epoch):
      if let run = running.run(id, epoch) { work.awaited.append(run) }
    case .suspect:
      guard let now = host?.clock.continuousNow else { return }
      _ = runsAlone(now)
      if now >= holds.othersEnd { returnPostponed() }
    }
  }

  /// The time after which a task that waits for a running one is reported.
  private static let childWait = Duration.seconds(60)

  /// Notes that a task was enqueued which depends on a task that may run. The handler of that may wait for it in turn.
  mutating func note(_ child: TaskID, waitingFor parent: TaskID, _ host: TaskDispatcher.Host) {
    guard let run = running[parent] else { return }
    let isFirst = run.state.withLock { state in
      defer { state.child = state.child ?? child }
      return state.child == nil
    }
    if !isFirst { return }
    timers.insert(
      Timers.Entry(
        deadline: host.clock.continuousNow + Self.childWait, wall: nil,
        suspending: host.clock.suspendingNow + Self.childWait, action: .child(run.id, epoch: run.epoch)))
  }

  /// Transition 21: ends an attempt whose handler has not renewed its lease in time. If it has, sets the timer of the
  /// lease again.
  private mutating func fireLease(_ id: TaskID, _ epoch: UInt32, _ work: inout TurnWork) {
    guard let host, let run = running.run(id, epoch) else { return }
    let left = run.state.withLock { $0.leaseEnd } - host.clock.suspendingNow
    if left <= .zero { return work.timeouts.append(Settlement(run: run, end: .leaseOver)) }
    timers.insert(run.leaseTimer(host.clock))
  }

  // MARK: - Attempts that begin

  /// Begins the tasks whose turn it is, as long as workers are free.
  mutating func takeClaims(_ work: inout TurnWork, _ host: TaskDispatcher.Host) {
    if holds.suspect != nil, runsAlone(host.clock.continuousNow) { return }
    // Subqueues that begin none are counted, too, because very many of them may be in the turns.
    var count = 0
    while running.busyCount < host.workers, let subqueue = subqueues.nextSubqueue() {
      count += 1
      if work.remaining == 0 || count > TurnWork.batchMaximum || work.loads.count >= TurnWork.share {
        work.isUnfinished = true
        return subqueues.enqueueFirst(subqueue)
      }
      if subqueue.queue.isPaused {
        _ = subqueue.queue.endCall(subqueue)
        subqueue.queue.wait(subqueue)
        continue
      }
      // No other task begins before the suspect. Otherwise it would wait for as long as others arrive.
      if !takeTurn(of: subqueue, &work, host, atMost: work.remaining) { return }
    }
  }

  /// Begins the task that is next, if its claim was made ahead. It is called when a worker has become free.
  ///
  /// All other tasks begin in the next turn of the loop.
  mutating func beginAhead() -> TaskRun? {
    guard !running.ahead.isEmpty, let host, running.busyCount < host.workers, !isStopping, !areAllHeld, !isDiskFull
    else {
      return nil
    }
    if holds.suspect != nil, runsAlone(host.clock.continuousNow) { return nil }
    guard let id = subqueues.turns.first, let subqueue = subqueues[id], subqueue.isInTurns, !subqueue.queue.isPaused,
      let entry = subqueue.first,
      mayBeginAhead(entry), let subqueue = subqueues.nextSubqueue()
    else { return nil }
    var work = TurnWork()
    _ = takeTurn(of: subqueue, &work, host, atMost: 1)
    return work.starts.first
  }

  /// Returns whether a task may begin by its claim that was made ahead.
  ///
  /// Workers begin tasks while the loop makes a commit, which may write the claim or change the task.
  private func mayBeginAhead(_ entry: QueuedTask) -> Bool {
    running.ahead.claim(of: entry)?.isWritten == true && !loop.changing.contains(entry.id)
  }

  /// How a turn of a subqueue has ended.
  enum TurnEnd {
    /// The subqueue has started as many tasks as it may in one turn, and may start more in its next.
    case over
    /// The subqueue may continue its turn when a worker is free, and when its next claim is written.
    case interrupted
    /// The next task may have caused the death of a process. It waits until no other task runs.
    case suspect
    /// The next task is such a task. Others may begin before it.
    case postponed
    /// The tasks of the subqueue are being read. It continues its turn after that, and others begin meanwhile.
    case reading
    /// The subqueue may start no task now.
    case idle
  }

  /// Begins tasks of a subqueue in its turn. Returns false if no other subqueue may begin one before this one.
  private mutating func takeTurn(
    of subqueue: Subqueue, _ work: inout TurnWork, _ host: TaskDispatcher.Host, atMost maximum: Int
  ) -> Bool {
    let queue = subqueue.queue
    let end = take(from: subqueue, &work, host, isCalled: queue.endCall(subqueue), atMost: maximum)
    switch end {
    case .over: subqueues.enqueue(subqueue)
    case .interrupted, .suspect:
      if queue.subqueueCount > 1 { queue.call(subqueue) }
      subqueues.enqueueFirst(subqueue)
    case .reading:
      // Very many subqueues of a queue may have to be read.
      if queue.subqueueCount > 1, queue.hasRoom { queue.call(subqueue) }
      subqueue.isReadInTurn = true
    case .postponed: holds.postpone(subqueue)
    case .idle: break
    }
    if subqueue.isIdle { subqueues.remove(subqueue, host.clock) }
    subqueues.callNext(of: queue)
    return end != .suspect && end != .interrupted && holds.suspect?.hasBegun != true
  }

  /// Takes tasks of one subqueue, as many as it may start in its turn.
  private mutating func take(
    from subqueue: Subqueue, _ work: inout TurnWork, _ host: TaskDispatcher.Host, isCalled: Bool, atMost maximum: Int
  ) -> TurnEnd {
    // Workers often become free one at a time, so a turn of several tasks may have begun before.
    var count = subqueue.turnCount
    subqueue.turnCount = 0
    let (rules, queue) = (subqueue.rules, subqueue.queue)
    var left = maximum
    while subqueue.runningCount < subqueue.runningMaximum {
      if count >= rules.turnMaximum { return .over }
      if left == 0 {
        work.isUnfinished = true
        subqueue.turnCount = count
        return .interrupted
      }
      if subqueue.needsRefill, let from = subqueue.beginRefill() { work.refills.append((subqueue.id, from)) }
      guard let entry = subqueue.first else { return subqueue.isRefilling ? .reading : .idle }
      // Subqueues of a queue take turns, so one that has not waited comes after those that wait.
      if queue.subqueueCount > 1, !queue.hasRoom || (queue.hasOthers && !isCalled && count == 0) {
        queue.wait(subqueue)
        return .idle
      }
      if running.busyCount >= host.workers {
        subqueue.turnCount = count
        return .interrupted
      }
      if rules.isSerial, entry.state != .ready, holds.leftOut[entry.id] == nil { return .idle }
      left -= 1
      if !holds.leftOut.isEmpty || !held.isEmpty,
        let passes = holds.passes(entry, of: subqueue, isHeld: held[entry.id] != nil)
      {
        if !passes { return .idle }
        _ = subqueue.popFirst()
        continue
      }
      if let claim = running.ahead.claim(of: entry) {
        guard mayBeginAhead(entry) else {
          subqueue.turnCount = count
          return .interrupted
        }
        start(claim, subqueue, &work, host)
        count += 1
        continue
      }
      guard let value = entry.value else {
        work.loads.append((subqueue.id, entry.key))
        return .reading
      }
      guard let stored = record(value, of: entry, subqueue, &work) else { continue }
      guard let handler = running.handlers.find(stored.kind, subqueue.name) else {
        if running.unhandled.insert(stored.kind).inserted { work.unhandled.append((stored, subqueue.name)) }
        if rules.isSerial { return .idle }
        subqueue.skipFirst()
        continue
      }
      if queue.hasRate, mustWait(subqueue, host) { return .idle }
      if entry.isSuspect, let end = waitAlone(entry.id, host) {
        guard end == .postponed, holds.postpone(entry, of: subqueue) else { return end }
        continue
      }
      _ = subqueue.popFirst()
      guard let run = Self.run(stored, subqueue, handler, host) else { continue }
      start(run, subqueue, host)
      work.claims.append(run)
      count += 1
      // A task that runs alone has begun.
      if holds.suspect?.hasBegun == true { return .over }
    }
    return .idle
  }

  /// Returns the record of the first task of a subqueue, or `nil` if it is damaged. Then the task leaves the subqueue.
  private func record(
    _ value: [UInt8], of entry: QueuedTask, _ subqueue: Subqueue, _ work: inout TurnWork
  ) -> TaskRecord? {
    do { return try TaskRecord(value, stamp: entry.stamp) } catch {
      work.damaged.append(error)
      _ = subqueue.popFirst()
      return nil
    }
  }

  /// Returns the attempt that a claim of a task begins.
  static func run(
    _ stored: TaskRecord, _ subqueue: Subqueue, _ handler: RegisteredHandler, _ host: TaskDispatcher.Host,
    isAhead: Bool = false
  ) -> TaskRun? {
    var record = stored
    // A head of a serial queue whose time has come still has its earlier state on disk.
    if record.progress.state == .retryWait { record.progress.state = .ready }
    guard (try? record.progress.apply(.claim)) != nil else { return nil }
    let isShort = subqueue.queue.duration(of: handler).map { $0 < TaskDispatcher.shortRun } ?? false
    return TaskRun(stored, record, subqueue, handler, start: host.start, isAhead: isAhead, isShort: isShort)
  }

  /// Begins the first task of a subqueue by a claim that was made ahead.
  private mutating func start(
    _ claim: ClaimsAhead.Claim, _ subqueue: Subqueue, _ work: inout TurnWork, _ host: TaskDispatcher.Host
  ) {
    let run = claim.run
    running.ahead.begin(run, turn: loop.turn)
    _ = subqueue.popFirst()
    start(run, subqueue, host)
    work.starts.append(run)
  }

  private mutating func start(_ run: TaskRun, _ subqueue: Subqueue, _ host: TaskDispatcher.Host) {
    running.begin(run)
    subqueue.countRun(1)
    // The task that waited to run alone does not wait any more: it was cancelled, or its queue was paused.
    if holds.suspect?.hasBegun == false { holds.suspect = nil }
    if subqueue.queue.hasRate { subqueue.queue.take(subqueue.id, host.clock.continuousNow.milliseconds) }
    running.ahead.noteBegun(in: subqueue)
  }

  /// Ends a hold of a task. Returns whether its time has come meanwhile.
  mutating func release(_ id: TaskID) -> Bool {
    let count = (held[id] ?? 1) - 1
    held[id] = count > 0 ? count : nil
    if count > 0 { return false }
    let (head, overtaken, due) = holds.release(id)
    if let head, let subqueue = subqueues[head] { subqueues.enqueue(subqueue) }
    if let (subqueue, entry) = overtaken { insert(entry, subqueue) }
    guard let key = due, let host else { return false }
    timers.insert(
      Timers.Entry(deadline: host.clock.continuousNow, wall: nil, suspending: nil, action: .task(id, key: key)))
    return true
  }

  /// Returns whether a subqueue has to wait for a token, and if so sets the timer for it. A task that must run alone
  /// waits for its token before others have to end.
  private mutating func mustWait(_ subqueue: Subqueue, _ host: TaskDispatcher.Host) -> Bool {
    if subqueue.waitsForToken { return true }
    guard let wait = subqueue.queue.wait(subqueue.id, host.clock.continuousNow.milliseconds) else { return false }
    subqueue.waitsForToken = true
    timers.insert(
      Timers.Entry(
        deadline: host.clock.continuousNow + .milliseconds(wait), wall: nil, suspending: nil,
        action: .tokens(subqueue.id)))
    return true
  }

  /// Adds the tokens of queues to the work, so that they are written with the claims that have taken them.
  mutating func takeTokens(_ work: inout TurnWork, _ host: TaskDispatcher.Host) {
    if work.claims.isEmpty { return }
    var offset: Int64?
    for run in work.claims {
      guard run.rules.rate != nil, let queue = subqueues.queues[run.record.position.queue], !queue.isWritten,
        let bucket = queue.tokens
      else { continue }
      queue.isWritten = true
      if offset == nil { offset = WallTime.milliseconds(host.clock.wallNow) - host.clock.continuousNow.milliseconds }
      work.tokens.append((queue.number, bucket.shifted(by: offset ?? 0)))
    }
  }

  // MARK: - Attempts that end

  /// Returns whether an attempt was begun by the host that runs tasks now.
  func isOfHost(_ run: TaskRun) -> Bool { isOfHost(run.start) }

  /// Returns whether the host that runs tasks now has a start's number.
  func isOfHost(_ start: UInt32) -> Bool { host?.start == start }

  /// Requests that the handler of a task end, and returns its Swift task, which the caller cancels without the lock:
  /// closures of the program run at that. If the handler does not return in time, the attempt ends without it, unless
  /// nothing may overtake it in its queue.
  mutating func cancel(_ run: TaskRun) -> Task<Void, Never>? {
    let task = run.state.withLock { state in
      state.isCancelling = true
      return state.task
    }
    guard let host, !run.rules.isSerial || run.rules.leavesHandlers else { return task }
    timers.insert(
      Timers.Entry(
        deadline: host.clock.continuousNow + host.abandonAfter, wall: nil,
        suspending: host.clock.suspendingNow + host.abandonAfter, action: .cancelOver(run.id, epoch: run.epoch)))
    return task
  }

  /// Releases the worker of an attempt whose handler has returned or was abandoned.
  mutating func release(_ run: TaskRun) {
    let (wasReleased, isEnded) = run.state.withLock { state in
      defer { state.isReleased = true }
      return (state.isReleased, state.isEnded)
    }
    if wasReleased { return }
    running.release(run)
    noteFree(run)
    guard let subqueue = subqueues[run.record.position.subqueue] else { return }
    // The next task of a serial queue starts when the end of this one is committed.
    if subqueue.rules.isSerial, !isEnded { return }
    subqueues.countEnd(subqueue)
    subqueues.enqueue(subqueue)
  }

  /// Notes that the worker of an attempt is free.
  mutating func noteFree(_ run: TaskRun) {
    if let suspect = holds.suspect, suspect.hasBegun, suspect.id == run.id { holds.suspect = nil }
    if running.busyCount == 0 { returnPostponed() }
  }

  /// Applies the committed end of an attempt. `entry` is the task if it is queued again.
  mutating func end(_ run: TaskRun, _ entry: QueuedTask?) {
    let (isReleased, wasEnded) = run.state.withLock { state in
      defer { state.isEnded = true }
      state.isSettled = true
      return (state.isReleased, state.isEnded)
    }
    running.end(run, hasWorker: !isReleased)
    guard let subqueue = subqueues[run.record.position.subqueue] else {
      if let entry { insert(entry, run.record.position.subqueue) }
      return
    }
    subqueue.noteEnded(run.stored.position.key(of: run.id))
    if let entry {
      subqueue.insert(entry)
      waitForHead(subqueue, entry)
    }
    if subqueue.rules.isSerial, isReleased, !wasEnded { subqueues.countEnd(subqueue) }
    subqueues.enqueue(subqueue)
  }

  /// Lets the next task of a serial queue be claimed in the same commit that ends this one. It begins after that
  /// commit.
  mutating func endEarly(_ settlement: Settlement) {
    let run = settlement.run
    // A child that becomes ready in the commit may come before the next queued task.
    if parents.mayHave(run.id) { return }
    guard run.rules.isSerial, !run.rules.strictDurableOrder, case .outcome(.done) = settlement.end,
      let subqueue = subqueues[run.record.position.subqueue]
    else { return }
    let isFirst = run.state.withLock { state in
      if !state.isReleased || state.isEnded { return false }
      state.isEnded = true
      return true
    }
    if !isFirst { return }
    subqueues.countEnd(subqueue)
    subqueues.enqueue(subqueue)
  }

  /// Undoes `endEarly` after a commit that failed.
  mutating func undoEnd(_ settlement: Settlement) {
    let run = settlement.run
    guard run.rules.isSerial, run.state.withLock({ $0.isEnded }), let subqueue = subqueues[run.record.position.subqueue]
    else {
      return
    }
    run.state.withLock { $0.isEnded = false }
    subqueue.countRun(1)
  }

  /// Sets a timer for the head of a serial queue that waits for its next attempt, so that its subqueue is examined
  /// then.
  mutating func waitForHead(_ subqueue: Subqueue, _ entry: QueuedTask) {
    guard let host, entry.state == .retryWait, let value = entry.value,
      let record = try? TaskRecord(value, stamp: entry.stamp)
    else { return }
    let wait = WallTime.wait(from: host.clock.wallNow, to: record.position.due)
    let deadline = host.clock.continuousNow + min(wait, .milliseconds(record.delay))
    timers.insert(
      Timers.Entry(deadline: deadline, wall: nil, suspending: nil, action: .subqueue(subqueue.id, key: entry.key)))
  }

  // MARK: - Timers

  /// Forgets the timers of attempts that have ended: those that are first, and all if there are many.
  mutating func dropEndedAttempts() {
    let (runs, abandonable, hasSuspect) = (running.runs, running.abandonable, holds.needsTimers(host?.clock))
    timers.dropAttempts(beyond: 8 * (runs.count + abandonable.count) + 256) { action in
      switch action {
      case .timeout(let id, let epoch), .lease(let id, let epoch), .cancelOver(let id, let epoch),
        .child(let id, let epoch):
        runs[id]?.epoch != epoch
      case .abandon(let id, let epoch): abandonable[AttemptKey(id: id, epoch: epoch)] == nil
      case .suspect: !hasSuspect
      case .task, .subqueue, .tokens, .schedule, .ageing, .unregistered: false
      }
    }
  }
}
