internal import FutexLocks
internal import Synchronization

/// Choosing what is due, what begins and what has ended. All methods are called with the dispatcher's lock held.
extension TaskDispatcher.State {
  // MARK: - Work of a turn

  /// Takes attempts that have ended, tasks whose children are left, and claims that are not needed any more.
  mutating func takeEnds(_ work: inout TaskWork, _ host: TaskDispatcher.Host) {
    let isDue = timers.first.map { $0.deadline <= host.clock.continuousNow } ?? false
    let room = TaskWork.share * ((lines.ring.isEmpty ? 0 : 1) + (parents.pending.isEmpty ? 0 : 1) + (isDue ? 1 : 0))
    work.settlements = running.takeSettlements(min(running.settlements.count, max(0, work.left - room)))
    for settlement in work.settlements { endEarly(settlement) }
    // Each of them may have very many children, which count, too.
    work.pending = parents.takePending(min(parents.pending.count, TaskWork.share / 2, work.left))
    work.strayClaims = running.ahead.takeStrays(min(running.ahead.strays.count, TaskWork.share, work.left))
  }

  // MARK: - Due work

  mutating func takeDue(_ work: inout TaskWork, _ host: TaskDispatcher.Host) {
    if timers.isEmpty, timers.end == nil { return }
    let clock = host.clock
    let (now, wall) = (clock.continuousNow, WallTime.passed(clock.wallNow))
    timers.followWall(clock, wall, now)
    var late: [Duration] = []
    // Timers leave room for the attempts that begin, and for the children of tasks that have ended.
    let room = min(host.workers, TaskWork.share) + (parents.pending.isEmpty ? 0 : TaskWork.share)
    while let first = timers.first, first.deadline <= now,
      work.left > room + (Self.findsTasks(first.action) ? TaskWork.share : 0)
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
    if needsTimers, lines.isDiscovered { work.timersFrom = timers.beginLoading() }
  }

  /// Returns whether the commit finds the tasks that are due by a timer, for which a share of it is left.
  private static func findsTasks(_ action: TaskTimers.Action) -> Bool {
    switch action {
    case .schedule, .ageing: true
    case .task, .line, .tokens, .timeout, .lease, .abandon, .cancelOver, .child, .suspect: false
    }
  }

  /// The time after which a full disk is looked at again: the space returns without a notice.
  static let fullDiskLook = Duration.seconds(1)

  /// Returns whether a timer makes tasks ready that could not begin on a full disk.
  private static func makesReady(_ action: TaskTimers.Action) -> Bool {
    if case .task = action { true } else { findsTasks(action) }
  }

  private mutating func fire(_ action: TaskTimers.Action, _ work: inout TaskWork) {
    switch action {
    case .task(let id, let key):
      // A transaction that is changing the task finds it at its position, so it becomes ready after that.
      if held[id] != nil {
        holds.noteDue(id, key)
      } else {
        work.due.append((id, key))
        loop.changing.insert(id)
      }
    case .line(let id, let key):
      guard let line = lines[id] else { return }
      line.wakeFirst(key)
      lines.enqueue(line)
    case .tokens(let id):
      guard let line = lines[id] else { return }
      line.waitsForToken = false
      lines.enqueue(line)
    case .schedule(let name): work.schedules.append(name)
    case .ageing(let queue):
      if let family = lines.families[queue], family.lineCount > 0 {
        work.ageing.append(queue)
      } else {
        lines.ageing.remove(queue)
      }
    case .timeout(let id, let epoch):
      if let run = running.run(id, epoch) { work.timeouts.append(TaskSettlement(run: run, end: .timeout)) }
    case .lease(let id, let epoch): fireLease(id, epoch, &work)
    case .cancelOver(let id, let epoch):
      guard let run = running.run(id, epoch), !run.state.withLock({ $0.isReleased }) else { return }
      run.state.withLock { $0.isOverdue = true }
      let end = TaskEnd.failure("the handler did not return after the task was cancelled", nil)
      work.timeouts.append(TaskSettlement(run: run, end: end))
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
      TaskTimers.Entry(
        deadline: host.clock.continuousNow + Self.childWait, wall: nil,
        suspending: host.clock.suspendingNow + Self.childWait, action: .child(run.id, epoch: run.epoch)))
  }

  /// Transition 21: ends an attempt whose handler has not renewed its lease in time. If it has, sets the timer of the
  /// lease again.
  private mutating func fireLease(_ id: TaskID, _ epoch: UInt32, _ work: inout TaskWork) {
    guard let host, let run = running.run(id, epoch) else { return }
    let left = run.state.withLock { $0.leaseEnd } - host.clock.suspendingNow
    if left <= .zero { return work.timeouts.append(TaskSettlement(run: run, end: .leaseOver)) }
    timers.insert(run.leaseTimer(host.clock))
  }

  // MARK: - Attempts that begin

  /// Begins the tasks whose turn it is, as long as workers are free.
  mutating func takeClaims(_ work: inout TaskWork, _ host: TaskDispatcher.Host) {
    if holds.suspect != nil, runsAlone(host.clock.continuousNow) { return }
    // Lines that begin none are counted, too, because very many of them may be in the ring.
    var count = 0
    while running.busyCount < host.workers, let line = lines.nextLine() {
      count += 1
      if work.left == 0 || count > TaskWork.batchMaximum || work.loads.count >= TaskWork.share {
        work.isUnfinished = true
        return lines.enqueueFirst(line)
      }
      if line.family.isPaused {
        _ = line.family.endCall(line)
        line.family.wait(line)
        continue
      }
      // No other task begins before the suspect. Otherwise it would wait for as long as others arrive.
      if !takeTurn(of: line, &work, host, atMost: work.left) { return }
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
    guard let id = lines.ring.first, let line = lines[id], line.isQueued, !line.family.isPaused, let entry = line.first,
      mayBeginAhead(entry), let line = lines.nextLine()
    else { return nil }
    var work = TaskWork()
    _ = takeTurn(of: line, &work, host, atMost: 1)
    return work.starts.first
  }

  /// Returns whether a task may begin by its claim that was made ahead.
  ///
  /// Workers begin tasks while the loop makes a commit, which may write the claim or change the task.
  private func mayBeginAhead(_ entry: LineEntry) -> Bool {
    running.ahead.claim(of: entry)?.isWritten == true && !loop.changing.contains(entry.id)
  }

  /// How a turn of a line has ended.
  enum TurnEnd {
    /// The line has started as many tasks as it may in one turn, and may start more in its next.
    case over
    /// The line may continue its turn when a worker is free, and when its next claim is written.
    case interrupted
    /// The next task may have caused the death of a process. It waits until no other task runs.
    case suspect
    /// The next task is such a task. Others may begin before it.
    case postponed
    /// The tasks of the line are being read. It continues its turn after that, and others begin meanwhile.
    case reading
    /// The line may start no task now.
    case idle
  }

  /// Begins tasks of a line in its turn. Returns false if no other line may begin one before this one.
  private mutating func takeTurn(
    of line: TaskLine, _ work: inout TaskWork, _ host: TaskDispatcher.Host, atMost maximum: Int
  ) -> Bool {
    let family = line.family
    let end = take(from: line, &work, host, isCalled: family.endCall(line), atMost: maximum)
    switch end {
    case .over: lines.enqueue(line)
    case .interrupted, .suspect:
      if family.lineCount > 1 { family.call(line) }
      lines.enqueueFirst(line)
    case .reading:
      // Very many lines of a queue may have to be read.
      if family.lineCount > 1, family.hasRoom { family.call(line) }
      line.isReadInTurn = true
    case .postponed: holds.postpone(line)
    case .idle: break
    }
    if line.isIdle { lines.remove(line, host.clock) }
    lines.callNext(of: family)
    return end != .suspect && end != .interrupted && holds.suspect?.hasBegun != true
  }

  /// Takes tasks of one line, as many as it may start in its turn.
  private mutating func take(
    from line: TaskLine, _ work: inout TaskWork, _ host: TaskDispatcher.Host, isCalled: Bool, atMost maximum: Int
  ) -> TurnEnd {
    // Workers often become free one at a time, so a turn of several tasks may have begun before.
    var count = line.turnCount
    line.turnCount = 0
    let (rules, family) = (line.rules, line.family)
    var left = maximum
    while line.runningCount < line.runningMaximum {
      if count >= rules.turnMaximum { return .over }
      if left == 0 {
        work.isUnfinished = true
        line.turnCount = count
        return .interrupted
      }
      if line.needsRefill, let from = line.beginRefill() { work.refills.append((line.id, from)) }
      guard let entry = line.first else { return line.isRefilling ? .reading : .idle }
      // Lines of a queue take turns, so one that has not waited comes after those that wait.
      if family.lineCount > 1, !family.hasRoom || (family.hasOthers && !isCalled && count == 0) {
        family.wait(line)
        return .idle
      }
      if running.busyCount >= host.workers {
        line.turnCount = count
        return .interrupted
      }
      if rules.isSerial, entry.state != .ready, holds.leftOut[entry.id] == nil { return .idle }
      left -= 1
      if !holds.leftOut.isEmpty || !held.isEmpty,
        let passes = holds.passes(entry, of: line, isHeld: held[entry.id] != nil)
      {
        if !passes { return .idle }
        _ = line.popFirst()
        continue
      }
      if let claim = running.ahead.claim(of: entry) {
        guard mayBeginAhead(entry) else {
          line.turnCount = count
          return .interrupted
        }
        start(claim, line, &work, host)
        count += 1
        continue
      }
      guard let value = entry.value else {
        work.loads.append((line.id, entry.key))
        return .reading
      }
      guard let stored = record(value, of: entry, line, &work) else { continue }
      guard let handler = running.handlers.find(stored.kind, line.name) else {
        if running.unhandled.insert(stored.kind).inserted { work.unhandled.append((stored, line.name)) }
        if rules.isSerial { return .idle }
        line.skipFirst()
        continue
      }
      if family.hasRate, mustWait(line, host) { return .idle }
      if entry.isSuspect, let end = waitAlone(entry.id, host) {
        guard end == .postponed, holds.postpone(entry, of: line) else { return end }
        continue
      }
      _ = line.popFirst()
      guard let run = Self.run(stored, line, handler, host) else { continue }
      start(run, line, host)
      work.claims.append(run)
      count += 1
      // A task that runs alone has begun.
      if holds.suspect?.hasBegun == true { return .over }
    }
    return .idle
  }

  /// Returns the record of the first task of a line, or `nil` if it is damaged. Then the task leaves the line.
  private func record(
    _ value: [UInt8], of entry: LineEntry, _ line: TaskLine, _ work: inout TaskWork
  ) -> TaskRecord? {
    do { return try TaskRecord(value, stamp: entry.stamp) } catch {
      work.damaged.append(error)
      _ = line.popFirst()
      return nil
    }
  }

  /// Returns the attempt that a claim of a task begins.
  static func run(
    _ stored: TaskRecord, _ line: TaskLine, _ handler: RegisteredHandler, _ host: TaskDispatcher.Host,
    isAhead: Bool = false
  ) -> TaskRun? {
    var record = stored
    // A head of a serial queue whose time has come still has its earlier state on disk.
    if record.progress.state == .retryWait { record.progress.state = .ready }
    guard (try? record.progress.apply(.claim)) != nil else { return nil }
    let isShort = line.family.duration(of: handler).map { $0 < TaskDispatcher.shortRun } ?? false
    return TaskRun(stored, record, line, handler, start: host.start, isAhead: isAhead, isShort: isShort)
  }

  /// Begins the first task of a line by a claim that was made ahead.
  private mutating func start(
    _ claim: ClaimsAhead.Claim, _ line: TaskLine, _ work: inout TaskWork, _ host: TaskDispatcher.Host
  ) {
    let run = claim.run
    running.ahead.begin(run, turn: loop.turn)
    _ = line.popFirst()
    start(run, line, host)
    work.starts.append(run)
  }

  private mutating func start(_ run: TaskRun, _ line: TaskLine, _ host: TaskDispatcher.Host) {
    running.begin(run)
    line.countRun(1)
    // The task that waited to run alone does not wait any more: it was cancelled, or its queue was paused.
    if holds.suspect?.hasBegun == false { holds.suspect = nil }
    if line.family.hasRate { line.family.take(line.id, host.clock.continuousNow.milliseconds) }
    running.ahead.noteBegun(in: line)
  }

  /// Ends a hold of a task. Returns whether its time has come meanwhile.
  mutating func release(_ id: TaskID) -> Bool {
    let count = (held[id] ?? 1) - 1
    held[id] = count > 0 ? count : nil
    if count > 0 { return false }
    let (head, overtaken, due) = holds.release(id)
    if let head, let line = lines[head] { lines.enqueue(line) }
    if let (line, entry) = overtaken { insert(entry, line) }
    guard let key = due, let host else { return false }
    timers.insert(
      TaskTimers.Entry(deadline: host.clock.continuousNow, wall: nil, suspending: nil, action: .task(id, key: key)))
    return true
  }

  /// Returns whether a line has to wait for a token, and if so sets the timer for it. A task that must run alone waits
  /// for its token before others have to end.
  private mutating func mustWait(_ line: TaskLine, _ host: TaskDispatcher.Host) -> Bool {
    if line.waitsForToken { return true }
    guard let wait = line.family.wait(line.id, host.clock.continuousNow.milliseconds) else { return false }
    line.waitsForToken = true
    timers.insert(
      TaskTimers.Entry(
        deadline: host.clock.continuousNow + .milliseconds(wait), wall: nil, suspending: nil, action: .tokens(line.id)))
    return true
  }

  /// Adds the tokens of queues to the work, so that they are written with the claims that have taken them.
  mutating func takeTokens(_ work: inout TaskWork, _ host: TaskDispatcher.Host) {
    if work.claims.isEmpty { return }
    var offset: Int64?
    for run in work.claims {
      guard run.rules.rate != nil, let family = lines.families[run.record.position.queue], !family.isWritten,
        let bucket = family.tokens
      else { continue }
      family.isWritten = true
      if offset == nil { offset = WallTime.milliseconds(host.clock.wallNow) - host.clock.continuousNow.milliseconds }
      work.tokens.append((family.number, bucket.shifted(by: offset ?? 0)))
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
      TaskTimers.Entry(
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
    guard let line = lines[run.record.position.line] else { return }
    // The next task of a serial queue starts when the end of this one is committed.
    if line.rules.isSerial, !isEnded { return }
    lines.countEnd(line)
    lines.enqueue(line)
  }

  /// Notes that the worker of an attempt is free.
  mutating func noteFree(_ run: TaskRun) {
    if let suspect = holds.suspect, suspect.hasBegun, suspect.id == run.id { holds.suspect = nil }
    if running.busyCount == 0 { returnPostponed() }
  }

  /// Applies the committed end of an attempt. `entry` is the task if it is in line again.
  mutating func end(_ run: TaskRun, _ entry: LineEntry?) {
    let (isReleased, wasEnded) = run.state.withLock { state in
      defer { state.isEnded = true }
      state.isSettled = true
      return (state.isReleased, state.isEnded)
    }
    running.end(run, hasWorker: !isReleased)
    guard let line = lines[run.record.position.line] else {
      if let entry { insert(entry, run.record.position.line) }
      return
    }
    line.noteEnded(run.stored.position.key(of: run.id))
    if let entry {
      line.insert(entry)
      waitForHead(line, entry)
    }
    if line.rules.isSerial, isReleased, !wasEnded { lines.countEnd(line) }
    lines.enqueue(line)
  }

  /// Lets the next task of a serial queue be claimed in the same commit that ends this one. It begins after that
  /// commit.
  mutating func endEarly(_ settlement: TaskSettlement) {
    let run = settlement.run
    // A child that becomes ready in the commit may come before the next task in line.
    if parents.mayHave(run.id) { return }
    guard run.rules.isSerial, !run.rules.strictDurableOrder, case .outcome(.done) = settlement.end,
      let line = lines[run.record.position.line]
    else { return }
    let isFirst = run.state.withLock { state in
      if !state.isReleased || state.isEnded { return false }
      state.isEnded = true
      return true
    }
    if !isFirst { return }
    lines.countEnd(line)
    lines.enqueue(line)
  }

  /// Undoes `endEarly` after a commit that failed.
  mutating func undoEnd(_ settlement: TaskSettlement) {
    let run = settlement.run
    guard run.rules.isSerial, run.state.withLock({ $0.isEnded }), let line = lines[run.record.position.line] else {
      return
    }
    run.state.withLock { $0.isEnded = false }
    line.countRun(1)
  }

  /// Sets a timer for the head of a serial queue that waits for its next attempt, so that its line is examined then.
  mutating func waitForHead(_ line: TaskLine, _ entry: LineEntry) {
    guard let host, entry.state == .retryWait, let value = entry.value,
      let record = try? TaskRecord(value, stamp: entry.stamp)
    else { return }
    let wait = WallTime.wait(from: host.clock.wallNow, to: record.position.due)
    let deadline = host.clock.continuousNow + min(wait, .milliseconds(record.delay))
    timers.insert(
      TaskTimers.Entry(deadline: deadline, wall: nil, suspending: nil, action: .line(line.id, key: entry.key)))
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
      case .task, .line, .tokens, .schedule, .ageing: false
      }
    }
  }
}
