internal import FutexLocks
internal import Synchronization

/// Choosing what is due, what begins and what has ended. All methods are called with the dispatcher's lock held.
extension TaskDispatcher.State {
  // MARK: - Due work

  mutating func takeDue(_ work: inout TaskWork, _ host: TaskDispatcher.Host) {
    if timers.isEmpty, timers.end == nil { return }
    let clock = host.clock
    let (now, wall) = (clock.continuousNow, WallTime.passed(clock.wallNow))
    followWall(clock, wall, now)
    var late: [Duration] = []
    while let first = timers.first, first.deadline <= now, work.due.count < TaskWork.batchMaximum {
      guard var entry = timers.popFirst() else { break }
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
      late.append(now - entry.deadline)
      fire(entry.action, &work)
    }
    host.recorder.noteTimers(late)
    if needsTimers, isDiscovered, let end = timers.end {
      isLoadingTimers = true
      work.timersFrom = end
    }
  }

  private mutating func fire(_ action: TaskTimers.Action, _ work: inout TaskWork) {
    switch action {
    case .task(let id, let key):
      // A transaction that is changing the task finds it at its position, so it becomes ready after that.
      if held[id] != nil {
        heldTimers[id] = key
      } else {
        work.due.append((id, key))
        changing.insert(id)
      }
    case .line(let id, let key):
      guard let line = lines[id] else { return }
      line.wakeFirst(key)
      enqueue(line)
    case .tokens(let id):
      guard let line = lines[id] else { return }
      line.waitsForToken = false
      enqueue(line)
    case .schedule(let name): work.schedules.append(name)
    case .ageing(let queue):
      if let family = families[queue], family.lineCount > 0 { work.ageing.append(queue) } else { ageing.remove(queue) }
    case .timeout(let id, let epoch):
      if let run = running[id], run.epoch == epoch {
        work.timeouts.append(TaskSettlement(run: run, end: .timeout))
      }
    case .lease(let id, let epoch): fireLease(id, epoch, &work)
    case .cancelOver(let id, let epoch):
      guard let run = running[id], run.epoch == epoch, !run.state.withLock({ $0.isReleased }) else { return }
      run.state.withLock { $0.isOverdue = true }
      let end = TaskEnd.failure("the handler did not return after the task was cancelled", nil)
      work.timeouts.append(TaskSettlement(run: run, end: end))
    case .abandon(let id, let epoch):
      guard let run = abandonable.removeValue(forKey: AttemptKey(id: id, epoch: epoch)) else { return }
      work.abandoned.append(run)
      release(run)
    case .child(let id, let epoch):
      if let run = running[id], run.epoch == epoch { work.awaited.append(run) }
    case .suspect: returnPostponed()
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
    guard let host, let run = running[id], run.epoch == epoch else { return }
    let left = run.state.withLock { $0.leaseEnd } - host.clock.suspendingNow
    if left <= .zero { return work.timeouts.append(TaskSettlement(run: run, end: .leaseOver)) }
    timers.insert(run.leaseTimer(host.clock))
  }

  /// Moves the deadlines of dates if the wall clock was set since the last check.
  private mutating func followWall(_ clock: any SchedulerClock, _ wall: Int64, _ now: Duration) {
    let (offset, last) = (wall - now.milliseconds, wallOffset)
    wallOffset = offset
    if abs(offset - last) <= 100 { return }
    wallSpans.end(last, next: offset, at: now.milliseconds)
    let wallNow = clock.wallNow
    timers.resetDates { now + max(.zero, WallTime.wait(from: wallNow, to: $0)) }
    // Rows on disk may be due before those in memory.
    if timers.end != nil, !isLoadingTimers { timers.forgetTasks() }
  }

  // MARK: - Attempts that begin

  /// Returns the maximum number of attempts that are claimed at once.
  ///
  /// If handlers take less than a millisecond, more attempts are claimed than there are workers, so that a worker has
  /// its next one ready: as many as it runs in that time.
  func claimMaximum(_ host: TaskDispatcher.Host) -> Int { host.workers * (1 + claimsAhead) }

  private var claimsAhead: Int {
    averageRun == 0 ? 0 : min(Self.aheadMaximum, Int(Self.aheadNanoseconds / averageRun))
  }

  static let aheadMaximum = 15
  static let aheadNanoseconds = 1e6

  /// Returns the next claimed attempt that its line and its queue allow to start, and counts it as started.
  ///
  /// Returns `nil` if no such attempt exists, or if no worker is free.
  mutating func nextClaimed() -> TaskRun? {
    guard let host, startedCount < host.workers else { return nil }
    var index = claimedBegin
    while index < claimed.count {
      let run = claimed[index]
      guard let line = lines[run.record.position.line], line.mayStart else {
        index += 1
        continue
      }
      if index == claimedBegin { claimedBegin += 1 } else { claimed.remove(at: index) }
      if claimedBegin == claimed.count {
        claimed.removeAll(keepingCapacity: true)
        claimedBegin = 0
      }
      startedCount += 1
      line.countStart(1)
      run.state.withLock { $0.isStarted = true }
      return run
    }
    return nil
  }

  mutating func takeClaims(_ work: inout TaskWork, _ host: TaskDispatcher.Host) {
    let maximum = claimMaximum(host)
    while !hasSuspect, busyCount < maximum, let line = nextLine() {
      if line.family.isPaused { continue }
      switch take(from: line, &work, host) {
      case .over: enqueue(line)
      case .interrupted, .suspect: enqueueFirst(line)
      case .postponed: postponed.append(line.id)
      case .idle: wakeFamily(of: line)
      }
      if line.isIdle { remove(line) }
      // No other task begins before the suspect. Otherwise it would wait for as long as others arrive.
      if isSuspectNext { return }
    }
  }

  /// How a turn of a line has ended.
  private enum TurnEnd {
    /// The line has started as many tasks as it may in one turn, and may start more in its next.
    case over
    /// No worker is free. The line may continue its turn.
    case interrupted
    /// The next task may have caused the death of a process. It waits until no other task runs.
    case suspect
    /// The next task is such a task that has waited for long. Others may begin before it.
    case postponed
    /// The line may start no task now.
    case idle
  }

  /// Takes tasks of one line, as many as it may start in its turn.
  private mutating func take(
    from line: TaskLine, _ work: inout TaskWork, _ host: TaskDispatcher.Host
  ) -> TurnEnd {
    // Workers often become free one at a time, so a turn of several tasks may have begun before.
    var count = line.turnCount
    line.turnCount = 0
    let rules = line.rules
    isSuspectNext = false
    let maximum = claimMaximum(host)
    // Tasks that run one after the other are also claimed one after the other.
    let ownMaximum = rules.isSerial ? 1 : line.runningMaximum * (1 + claimsAhead)
    let familyMaximum = rules.runningMaximum * (1 + claimsAhead)
    // While other lines wait, no claims are made ahead of their turn.
    let weight = rules.turnMaximum * (ringCount > 0 ? 1 : 1 + claimsAhead)
    while line.runningCount < ownMaximum {
      if line.needsRefill, let from = line.beginRefill() { work.refills.append((line.id, from)) }
      guard let entry = line.first else { return .idle }
      if line.family.lineCount > 1, line.family.runningCount >= familyMaximum {
        if !line.waitsForFamily { line.family.waiting.append(line.id) }
        line.waitsForFamily = true
        return .idle
      }
      if count >= weight || hasSuspect { return .over }
      if busyCount >= maximum {
        line.turnCount = count
        return .interrupted
      }
      if rules.isSerial, entry.state != .ready, left[entry.id] == nil { return .idle }
      if !left.isEmpty || !held.isEmpty, let passes = passes(entry, of: line) {
        if !passes { return .idle }
        _ = line.popFirst()
        continue
      }
      guard let value = entry.value else {
        work.loads.append((line.id, entry.key))
        return .idle
      }
      let stored: TaskRecord
      do { stored = try TaskRecord(value, stamp: entry.stamp) } catch {
        work.damaged.append(error)
        _ = line.popFirst()
        continue
      }
      guard let handler = handlers.find(stored.kind, line.name) else {
        if unhandled.insert(stored.kind).inserted { work.unhandled.append((stored, line.name)) }
        if rules.isSerial { return .idle }
        line.skipFirst()
        continue
      }
      if line.family.hasRate, mustWait(line, host) { return .idle }
      if entry.crashes > 0, busyCount > 0 {
        isSuspectNext = keepsOthers(entry.id, host)
        return isSuspectNext ? .suspect : .postponed
      }
      guard let run = begin(stored, line, handler, host) else {
        _ = line.popFirst()
        continue
      }
      _ = line.popFirst()
      work.claims.append(run)
      count += 1
      if entry.crashes > 0 { (hasSuspect, suspect) = (true, nil) }
    }
    return .idle
  }

  /// Ends a hold of a task. Returns whether its time has come meanwhile.
  mutating func release(_ id: TaskID) -> Bool {
    let count = (held[id] ?? 1) - 1
    held[id] = count > 0 ? count : nil
    if count > 0 { return false }
    if let held = heldLines.removeValue(forKey: id), let line = lines[held] { enqueue(line) }
    if let (line, entry) = aside.removeValue(forKey: id) { insert(entry, line) }
    guard let key = heldTimers.removeValue(forKey: id), let host else { return false }
    timers.insert(
      TaskTimers.Entry(deadline: host.clock.continuousNow, wall: nil, suspending: nil, action: .task(id, key: key)))
    return true
  }

  /// The maximum number of held tasks that others overtake, which are kept in memory.
  private static let asideMaximum = 4_096

  /// Returns whether others may overtake the first task of a line, which may not begin now because a transaction is
  /// changing it, or it was left out until the next start. Returns `nil` if it may begin.
  private mutating func passes(_ entry: LineEntry, of line: TaskLine) -> Bool? {
    // No task may overtake the head of a serial queue, unless it was done.
    let isSerial = line.rules.isSerial
    if let isDone = left[entry.id] { return !isSerial || isDone }
    if held[entry.id] == nil { return nil }
    // A transaction may hold very many tasks: then the line waits for it, too.
    let waits = isSerial || aside.count >= Self.asideMaximum
    if waits { heldLines[entry.id] = line.id } else { aside[entry.id] = (line.id, entry) }
    return !waits
  }

  /// The time for which no other task begins because one that may have caused the death of a process is next.
  ///
  /// It is bounded because a handler may run for hours. After it, others begin for as long, and so on.
  private static let suspectSeconds: Int64 = 60

  /// Returns whether a task that may have caused the death of a process keeps others from beginning now.
  private mutating func keepsOthers(_ id: TaskID, _ host: TaskDispatcher.Host) -> Bool {
    let now = host.clock.continuousNow
    if suspect?.id != id { suspect = (id, now, .zero) }
    let since = suspect?.since ?? now
    let round = (now - since).clipped.components.seconds / Self.suspectSeconds
    let end = since + .seconds((round + 1) * Self.suspectSeconds)
    if suspect?.timer != end {
      suspect?.timer = end
      timers.insert(TaskTimers.Entry(deadline: end, wall: nil, suspending: nil, action: .suspect))
    }
    return round % 2 == 0
  }

  /// Takes lines into account again whose next task may have caused the death of a process.
  mutating func returnPostponed() {
    for id in postponed { if let line = lines[id] { enqueueFirst(line) } }
    postponed = []
  }

  private mutating func begin(
    _ stored: TaskRecord, _ line: TaskLine, _ handler: RegisteredHandler, _ host: TaskDispatcher.Host
  ) -> TaskRun? {
    var record = stored
    // A head of a serial queue whose time has come still has its earlier state on disk.
    if record.progress.state == .retryWait { record.progress.state = .ready }
    guard (try? record.progress.apply(.claim)) != nil else { return nil }
    let run = TaskRun(stored, record, line, handler, start: host.start)
    running[run.id] = run
    busyCount += 1
    line.countRun(1)
    if line.family.hasRate { line.family.take(line.id, host.clock.continuousNow.milliseconds) }
    return run
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
      guard run.rules.rate != nil, let family = families[run.record.position.queue], !family.isWritten,
        let bucket = family.tokens
      else { continue }
      family.isWritten = true
      if offset == nil { offset = WallTime.milliseconds(host.clock.wallNow) - host.clock.continuousNow.milliseconds }
      work.tokens.append((family.number, bucket.shifted(by: offset ?? 0)))
    }
  }

  /// Lets another line of the queue begin a task, because this one begins none now.
  private mutating func wakeFamily(of line: TaskLine) {
    let family = line.family
    let maximum = family.rules.runningMaximum * (1 + claimsAhead)
    if !family.waiting.isEmpty, family.runningCount < maximum { wakeFamily(family) }
  }

  /// Lets a waiting line of a queue begin a task, because another task of the queue has ended.
  private mutating func wakeFamily(_ family: QueueFamily) {
    while !family.waiting.isEmpty {
      let id = family.waiting.removeFirst()
      guard let line = lines[id] else { continue }
      line.waitsForFamily = false
      return enqueue(line)
    }
  }

  // MARK: - Attempts that end

  /// Returns whether an attempt was begun by the host that runs tasks now.
  func isOfHost(_ run: TaskRun) -> Bool { isOfHost(run.start) }

  /// Returns whether the host that runs tasks now has a start's number.
  func isOfHost(_ start: UInt32) -> Bool { host?.start == start }

  /// Requests that the handler of a task end, and returns its Swift task, which the caller cancels without the lock:
  /// closures of the program run at that. If the handler does not return in time, the attempt ends without it, unless nothing may overtake it
  /// in its queue.
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
    let (wasReleased, isEnded, wasStarted) = run.state.withLock { state in
      defer { state.isReleased = true }
      return (state.isReleased, state.isEnded, state.isStarted)
    }
    if wasReleased { return }
    abandonable[run.key] = nil
    stopCallers.remove(run.key)
    busyCount -= 1
    if wasStarted { startedCount -= 1 }
    if run.stored.progress.crashes > 0 { hasSuspect = false }
    if busyCount == 0 { returnPostponed() }
    guard let line = lines[run.record.position.line] else { return }
    if wasStarted { line.countStart(-1) }
    // The next task of a serial queue starts when the end of this one is committed.
    if !line.rules.isSerial || isEnded { countEnd(line) }
    enqueue(line)
  }

  /// Applies the committed end of an attempt. `entry` is the task if it is in line again.
  mutating func end(_ run: TaskRun, _ entry: LineEntry?) {
    let (isReleased, wasEnded) = run.state.withLock { state in
      defer { state.isEnded = true }
      state.isSettled = true
      return (state.isReleased, state.isEnded)
    }
    running[run.id] = nil
    if !isReleased { abandonable[run.key] = run }
    guard let line = lines[run.record.position.line] else {
      if let entry { insert(entry, run.record.position.line) }
      return
    }
    line.noteEnded(run.stored.position.key(of: run.id))
    if let entry {
      line.insert(entry)
      waitForHead(line, entry)
    }
    if line.rules.isSerial, isReleased, !wasEnded { countEnd(line) }
    enqueue(line)
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
    countEnd(line)
    enqueue(line)
  }

  private mutating func countEnd(_ line: TaskLine) {
    line.countRun(-1)
    if !line.family.waiting.isEmpty { wakeFamily(line.family) }
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

  mutating func insert(_ timer: TaskDelta.Timer, _ host: TaskDispatcher.Host) {
    if let end = timers.end, !LineEntry.precedes(timer.key, end) {
      if isLoadingTimers { missedTimers.append(timer) }
      return
    }
    add(timer, host.clock)
    // While rows are read, the end is the first one of these.
    if !isLoadingTimers { timers.trim() }
  }

  /// Forgets the timers of attempts that have ended: those that are first, and all if there are many.
  mutating func dropEndedAttempts() {
    let (running, abandonable, timerOfSuspect) = (running, abandonable, suspect?.timer)
    timers.dropAttempts(beyond: 8 * (running.count + abandonable.count) + 256) { action in
      switch action {
      case .timeout(let id, let epoch), .lease(let id, let epoch), .cancelOver(let id, let epoch),
        .child(let id, let epoch):
        running[id]?.epoch != epoch
      case .abandon(let id, let epoch): abandonable[AttemptKey(id: id, epoch: epoch)] == nil
      case .suspect: timerOfSuspect == nil
      case .task, .line, .tokens, .schedule, .ageing: false
      }
    }
  }

  /// Notes that from a key on there are rows of timers on disk that are not in memory.
  mutating func noteMoreTimers(from key: [UInt8]) {
    // The read may not have found them.
    if isLoadingTimers, moreTimersMeanwhile.map({ LineEntry.precedes(key, $0) }) ?? true { moreTimersMeanwhile = key }
    timers.cut(from: key)
  }

  mutating func add(_ timer: TaskDelta.Timer, _ clock: any SchedulerClock) {
    let deadline = timer.deadline ?? clock.continuousNow + WallTime.wait(from: clock.wallNow, to: timer.due)
    timers.insert(
      TaskTimers.Entry(
        deadline: deadline, wall: timer.deadline == nil ? timer.due : nil, suspending: nil,
        action: .task(timer.id, key: timer.key)))
  }
}
