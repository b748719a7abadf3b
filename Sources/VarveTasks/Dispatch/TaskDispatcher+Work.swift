internal import FutexLocks
internal import Synchronization

/// What a scheduler does next: all of it in one commit beside the writer.
struct TaskWork {
  var settlements: [TaskSettlement] = []
  /// Tasks whose time has come, by the keys of their rows.
  var due: [(id: TaskID, key: [UInt8])] = []
  /// Attempts whose time is over.
  var timeouts: [TaskRun] = []
  /// Attempts that begin.
  var claims: [TaskRun] = []
  /// Lines whose tasks are to be read from disk, from a key on.
  var refills: [(line: LineID, from: [UInt8])] = []
  /// First tasks of lines whose values are to be read.
  var loads: [(line: LineID, key: [UInt8])] = []
  /// Tasks whose children are to receive that they have ended.
  var pending: [TaskID] = []
  /// Tokens of queues that are to be written.
  var tokens: [(queue: UInt32, bucket: TokenBucket)] = []
  /// Schedules whose next time may have come.
  var schedules: [String] = []
  /// Lines whose waiting tasks move up.
  var ageing: [UInt32] = []
  /// From which key on rows of timers are to be read; nil: they are not.
  var timersFrom: [UInt8]?
  /// Rows of a line that can't be read.
  var damaged: [DamagedTask] = []

  var isEmpty: Bool {
    settlements.isEmpty && due.isEmpty && timeouts.isEmpty && claims.isEmpty && refills.isEmpty && loads.isEmpty && pending.isEmpty
      && schedules.isEmpty && ageing.isEmpty
      && timersFrom == nil && damaged.isEmpty
  }

  /// At most so many tasks are settled, or become ready, in one commit.
  static let batchMaximum = 512
}

extension TaskDispatcher {
  /// What is to be done now; nil: nothing is, and what brings something wakes the host.
  ///
  /// In this order: what has ended, what is due, what begins.
  func takeWork() -> TaskWork? {
    state.withLock { state in
      guard let host = state.host else {
        state.isPumping = false
        return nil
      }
      var work = TaskWork()
      let count = min(state.settlements.count, TaskWork.batchMaximum)
      work.settlements = Array(state.settlements.prefix(count))
      state.settlements.removeFirst(count)
      for settlement in work.settlements { state.endEarly(settlement) }
      state.takeDue(&work, host)
      let pendingCount = min(state.pending.count, TaskWork.batchMaximum)
      work.pending = Array(state.pending.prefix(pendingCount))
      state.pending.removeFirst(pendingCount)
      if !state.isStopping {
        state.takeClaims(&work, host)
        state.takeTokens(&work, host)
      }
      if work.isEmpty {
        state.isPumping = false
        return nil
      }
      return work
    }
  }

  /// Claims are committed: their handlers may run. Returns those that have a worker.
  func start(_ claims: [TaskRun]) -> [TaskRun] {
    state.withLock { state in
      state.claimed += claims
      var started: [TaskRun] = []
      while let run = state.nextClaimed() { started.append(run) }
      if !started.isEmpty, state.isWorkerWaiting, state.handedOver == nil {
        state.handedOver = started.removeFirst()
        handCount.add(1, ordering: .releasing)
      }
      return started
    }
  }

  /// An attempt is over, as its handler says, after so many nanoseconds. Returns what is to be woken, and what its worker runs
  /// next.
  func finish(_ run: TaskRun, _ end: TaskEnd, after nanoseconds: Double) -> (host: Host?, next: TaskRun?) {
    defer { endCount.add(1, ordering: .releasing) }
    return state.withLock { state in
      // A handler of an earlier start, which was abandoned.
      guard state.isOfHost(run) else { return (nil, nil) }
      state.averageRun += (max(1, nanoseconds) - state.averageRun) * (state.averageRun == 0 ? 1 : 0.1)
      if run.settle() { state.settlements.append(TaskSettlement(run: run, end: end)) }
      state.release(run)
      return (state.wakingHost(), state.nextClaimed())
    }
  }

  /// Waits shortly for the end of a handler, if none has come since `count`, where handlers are short: what starts one gets its end
  /// without going to sleep. Going to sleep and being woken takes longer than such a handler.
  func waitForEnd(after count: UInt64) {
    guard state.withLock({ $0.averageRun > 0 && $0.averageRun < Self.shortRun }) else { return }
    let end = ContinuousClock.now + Self.look
    while endCount.load(ordering: .relaxed) == count, ContinuousClock.now < end {}
  }

  /// Waits shortly for another attempt, where handlers are short and no other worker waits; nil: none has come.
  func waitForClaim() -> TaskRun? {
    let count = handCount.load(ordering: .acquiring)
    let isWaiting = state.withLock { state in
      guard state.averageRun < Self.shortRun, !state.isWorkerWaiting, state.isPumping else { return false }
      state.isWorkerWaiting = true
      return true
    }
    if !isWaiting { return nil }
    let end = ContinuousClock.now + Self.look
    while handCount.load(ordering: .relaxed) == count, ContinuousClock.now < end {}
    return state.withLock { state in
      state.isWorkerWaiting = false
      return state.handedOver.take()
    }
  }

  /// A handler that takes less is short, in nanoseconds.
  private static let shortRun = 1e5
  private static let look = Duration.microseconds(150)

  /// A task is in line.
  func insert(_ entry: LineEntry, _ line: LineID) {
    let host = state.withLock { state in
      state.insert(entry, line)
      return state.wakingHost()
    }
    host?.wake()
  }

  func insert(_ timer: TaskDelta.Timer) {
    state.withLock { state in
      if let host = state.host { state.insert(timer, host) }
    }
  }

  func insert(_ timer: TaskTimers.Entry) { state.withLock { $0.timers.insert(timer) } }

  /// What was to be done could not be written.
  func again(_ work: TaskWork) {
    state.withLock { state in
      guard let host = state.host else { return }
      let now = host.clock.continuousNow
      state.pending = work.pending + state.pending
      let actions =
        work.due.map { TaskTimers.Action.task($0.id, key: $0.key) } + work.schedules.map { .schedule($0) }
        + work.ageing.map { .ageing($0) }
      for action in actions {
        state.timers.insert(TaskTimers.Entry(deadline: now, wall: nil, suspending: nil, action: action))
      }
    }
  }

  /// What a commit beside the writer has changed for lines and timers.
  func apply(_ changes: AsideDelta) {
    if changes.isEmpty { return }
    let (host, timersChanged) = state.withLock { state -> (Host?, Bool) in
      for (name, queue) in changes.names { state.note(name, queue) }
      for id in changes.parents { state.parents.insert(id) }
      state.pending += changes.pending
      // Where no transaction is left that changes a task the next commit goes on.
      if state.held.isEmpty { state.pending += changes.heldPending } else { state.heldPending += changes.heldPending }
      for (lineID, id, key) in changes.removed { state.lines[lineID]?.remove(id, key: key) }
      for (line, entry) in changes.entries { state.insert(entry, line) }
      guard let host = state.host else { return (nil, false) }
      for timer in changes.timers { state.insert(timer, host) }
      return (state.wakingHost(), !changes.timers.isEmpty)
    }
    host?.wake()
    if timersChanged { state.withLock { $0.host }?.timersChanged() }
  }

  /// Whether a transaction is changing a task.
  func isHeld(_ id: TaskID) -> Bool { state.withLock { $0.held[id] != nil } }

  /// Those of some tasks that others may depend on.
  func withChildren(_ ids: some Sequence<TaskID>) -> Set<TaskID> {
    state.withLock { state in
      if state.parents.isEmpty { return [] }
      return Set(ids.filter { state.parents.mayHave($0) })
    }
  }

  /// The end of an attempt is committed. `entry` is the task where it is in line again.
  func didSettle(_ run: TaskRun, _ entry: LineEntry?, _ timers: [TaskTimers.Entry]) {
    let host = state.withLock { state -> Host? in
      guard state.isOfHost(run) else { return nil }
      state.end(run, entry)
      for timer in timers { state.timers.insert(timer) }
      return state.wakingHost()
    }
    host?.wake()
  }

  /// Claims were not committed: their tasks are in line as before.
  func undo(_ claims: [TaskRun], _ settlements: [TaskSettlement]) {
    state.withLock { state in
      for run in claims {
        state.running[run.id] = nil
        state.busyCount -= 1
        if run.stored.progress.crashes > 0 { state.hasSuspect = false }
        guard let line = state.lines[run.record.position.line] else { continue }
        line.countRun(-1)
        line.family.giveBack(line.id)
        var entry = LineEntry(run.stored, run.stored.bytes)
        entry.state = .ready
        line.insert(entry)
        state.enqueue(line)
      }
      state.settlements.insert(contentsOf: settlements, at: 0)
      for settlement in settlements { state.undoEnd(settlement) }
    }
  }

  /// What the disk has of a line.
  func refill(_ id: LineID, from: [UInt8], _ entries: [LineEntry]?, next: [UInt8]?) {
    state.withLock { state in
      guard let line = state.lines[id] else { return }
      if let entries {
        let running = state.running
        line.endRefill(entries, from: from, next: next) { running[$0] != nil }
      } else {
        line.failRefill()
      }
      state.enqueue(line)
      if let first = line.first { state.waitForHead(line, first) }
    }
  }

  func load(_ id: LineID, _ key: [UInt8], _ value: [UInt8]?) {
    state.withLock { state in
      guard let line = state.lines[id] else { return }
      line.loadFirst(key, value)
      state.enqueue(line)
    }
  }

  /// Rows of timers that were read, and the first key that was not; nil: there are no more.
  func loadTimers(_ timers: [TaskDelta.Timer]?, next: [UInt8]?) {
    state.withLock { state in
      guard state.isLoadingTimers else { return }
      state.isLoadingTimers = false
      let missed = state.missedTimers
      state.missedTimers = []
      guard let timers, let host = state.host else { return }
      state.timers.end = next
      for timer in timers { state.add(timer, host.clock) }
      let known = Set(timers.map(\.key))
      for timer in missed where !known.contains(timer.key) { state.insert(timer, host) }
    }
  }

  /// Rows of timers are about to be read for the first time. Returns from which key on.
  func beginLoadingTimers() -> [UInt8]? {
    state.withLock { state in
      state.isLoadingTimers = true
      return state.timers.end
    }
  }

  /// The time at which the host is to look again, on the continuous clock; nil: when something comes.
  var nextDeadline: Duration? {
    state.withLock { state in
      guard let host = state.host, let first = state.timers.first else { return nil }
      // The clock of the wall may be set.
      if state.timers.wallCount > 0 {
        let minutes = host.clock.continuousNow.components.seconds / Self.wallLook.components.seconds + 1
        return min(first.deadline, Self.wallLook * Int(minutes))
      }
      return first.deadline
    }
  }

  /// Where tasks wait for a date, the clock of the wall is looked at so often.
  static let wallLook = Duration.seconds(60)
}

extension TaskDispatcher.State {
  // MARK: - What is due

  mutating func takeDue(_ work: inout TaskWork, _ host: TaskDispatcher.Host) {
    if timers.isEmpty, timers.end == nil { return }
    let clock = host.clock
    let (now, wall) = (clock.continuousNow, WallTime.milliseconds(clock.wallNow))
    followWall(wall, now)
    while let first = timers.first, first.deadline <= now, work.due.count < TaskWork.batchMaximum {
      guard var entry = timers.popFirst() else { break }
      if let due = entry.wall, due > wall {
        // The clock of the wall was set back: not early.
        entry.deadline = now + .milliseconds(due - wall)
        timers.insert(entry)
        continue
      }
      if let suspending = entry.suspending, suspending > clock.suspendingNow {
        entry.deadline = now + (suspending - clock.suspendingNow)
        timers.insert(entry)
        continue
      }
      fire(entry.action, &work)
    }
    if timers.taskCount == 0, let end = timers.end, !isLoadingTimers, isDiscovered {
      isLoadingTimers = true
      work.timersFrom = end
    }
  }

  private mutating func fire(_ action: TaskTimers.Action, _ work: inout TaskWork) {
    switch action {
    case .task(let id, let key):
      // A transaction that is changing it finds it where it is.
      if held[id] != nil { heldTimers[id] = key } else { work.due.append((id, key)) }
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
      if families[queue] != nil { work.ageing.append(queue) } else { ageing.remove(queue) }
    case .timeout(let id, let epoch):
      if let run = running[id], run.epoch == epoch { work.timeouts.append(run) }
    case .abandon(let id, let epoch):
      guard let run = abandonable[id], run.epoch == epoch else { return }
      abandonable[id] = nil
      release(run)
    }
  }

  /// The clock of the wall may have been set since the last look.
  private mutating func followWall(_ wall: Int64, _ now: Duration) {
    let offset = wall - now.milliseconds
    let shift = offset - wallOffset
    wallOffset = offset
    if timers.wallCount > 0, abs(shift) > 100 { timers.moveWall(by: .milliseconds(shift)) }
  }

  // MARK: - What begins

  /// How many attempts are claimed at once. Where handlers take less than a millisecond more are claimed than there are workers, so
  /// that a worker has its next one at hand: as many as it runs in that time.
  func claimMaximum(_ host: TaskDispatcher.Host) -> Int { host.workers * (1 + claimsAhead) }

  private var claimsAhead: Int {
    averageRun == 0 ? 0 : min(Self.aheadMaximum, Int(Self.aheadNanoseconds / averageRun))
  }

  static let aheadMaximum = 15
  static let aheadNanoseconds = 1e6

  /// The next attempt that is claimed, and whose queue has not as many handlers as it may have; nil: none is, or no worker.
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
      let mayGoOn = take(from: line, &work, host)
      if mayGoOn { enqueue(line) } else { wakeFamily(of: line) }
      if line.isIdle { remove(line) }
      // A task that may have made a process die waits until nothing else runs.
      if isSuspectNext { return }
    }
  }

  /// Takes tasks of one line, as many as it has a turn for. Returns whether it may start more.
  private mutating func take(from line: TaskLine, _ work: inout TaskWork, _ host: TaskDispatcher.Host) -> Bool {
    var count = 0
    let rules = line.rules
    isSuspectNext = false
    let maximum = claimMaximum(host)
    // One after the other is claimed so, too.
    let ownMaximum = rules.isSerial ? 1 : line.runningMaximum * (1 + claimsAhead)
    let familyMaximum = rules.runningMaximum * (1 + claimsAhead)
    let weight = max(1, rules.weight) * (1 + claimsAhead)
    while line.runningCount < ownMaximum {
      if line.needsRefill, let from = line.beginRefill() { work.refills.append((line.id, from)) }
      guard let entry = line.first else { return false }
      if line.family.lineCount > 1, line.family.runningCount >= familyMaximum {
        if !line.waitsForFamily { line.family.waiting.append(line.id) }
        line.waitsForFamily = true
        return false
      }
      if busyCount >= maximum || count >= weight || hasSuspect { return true }
      if rules.isSerial, entry.state != .ready { return false }
      if held[entry.id] != nil {
        // Nothing passes the head of a serial queue; others pass in a standard one.
        if rules.isSerial {
          heldLines[entry.id] = line.id
          return false
        }
        _ = line.popFirst()
        aside[entry.id] = (line.id, entry)
        continue
      }
      guard let value = entry.value else {
        work.loads.append((line.id, entry.key))
        return false
      }
      let stored: TaskRecord
      do { stored = try TaskRecord(value, stamp: entry.stamp) } catch {
        work.damaged.append(error)
        _ = line.popFirst()
        continue
      }
      guard let handler = handlers.find(stored.kind, line.name) else {
        unhandled.insert(stored.kind)
        if rules.isSerial { return false }
        line.skipFirst()
        continue
      }
      if entry.crashes > 0, busyCount > 0 {
        isSuspectNext = true
        return true
      }
      if rules.rate != nil || rules.ratePerKey != nil, mustWait(line, host) { return false }
      guard let run = begin(stored, line, handler, host) else {
        _ = line.popFirst()
        continue
      }
      _ = line.popFirst()
      work.claims.append(run)
      count += 1
      if entry.crashes > 0 { hasSuspect = true }
    }
    return false
  }

  private mutating func begin(
    _ stored: TaskRecord, _ line: TaskLine, _ handler: RegisteredHandler, _ host: TaskDispatcher.Host
  ) -> TaskRun? {
    var record = stored
    // A head of a serial queue whose time has come still is what it was on disk.
    if record.progress.state == .retryWait { record.progress.state = .ready }
    guard (try? record.progress.apply(.claim)) != nil else { return nil }
    let run = TaskRun(stored, record, line, handler, start: host.start)
    running[run.id] = run
    busyCount += 1
    line.countRun(1)
    return run
  }

  /// Takes a token for the next task of a line; true where there is none before another time.
  private mutating func mustWait(_ line: TaskLine, _ host: TaskDispatcher.Host) -> Bool {
    if line.waitsForToken { return true }
    guard let wait = line.family.take(line.id, WallTime.milliseconds(host.clock.wallNow)) else { return false }
    line.waitsForToken = true
    timers.insert(
      TaskTimers.Entry(
        deadline: host.clock.continuousNow + .milliseconds(wait), wall: nil, suspending: nil, action: .tokens(line.id)))
    return true
  }

  /// Tokens that were taken are written ten times a second, at most.
  mutating func takeTokens(_ work: inout TaskWork, _ host: TaskDispatcher.Host) {
    if work.claims.isEmpty || families.count > 1 << 12 { return }
    for run in work.claims {
      guard run.rules.rate != nil, let family = families[run.record.position.queue], !family.isWritten,
        let bucket = family.tokens
      else { continue }
      let now = host.clock.continuousNow
      if let last = family.written, now < last + .milliseconds(100) { continue }
      family.written = now
      family.isWritten = true
      work.tokens.append((family.number, bucket))
    }
  }

  /// A line begins nothing now: another one of its queue may.
  private mutating func wakeFamily(of line: TaskLine) {
    let family = line.family
    let maximum = family.rules.runningMaximum * (1 + claimsAhead)
    if !family.waiting.isEmpty, family.runningCount < maximum { wakeFamily(family) }
  }

  /// A task of a queue is over: one of its lines may begin another.
  private mutating func wakeFamily(_ family: QueueFamily) {
    while !family.waiting.isEmpty {
      let id = family.waiting.removeFirst()
      guard let line = lines[id] else { continue }
      line.waitsForFamily = false
      return enqueue(line)
    }
  }

  // MARK: - What has ended

  /// Whether an attempt was begun by what runs tasks now.
  func isOfHost(_ run: TaskRun) -> Bool { host?.start == run.start }

  /// A handler has returned, or was abandoned.
  mutating func release(_ run: TaskRun) {
    let (wasReleased, isEnded, wasStarted) = run.state.withLock { state in
      defer { state.isReleased = true }
      return (state.isReleased, state.isEnded, state.isStarted)
    }
    if wasReleased { return }
    abandonable[run.id] = nil
    busyCount -= 1
    if wasStarted { startedCount -= 1 }
    if run.stored.progress.crashes > 0 { hasSuspect = false }
    guard let line = lines[run.record.position.line] else { return }
    if wasStarted { line.countStart(-1) }
    // The next one of a serial queue starts when the end of this one is committed.
    if !line.rules.isSerial || isEnded { countEnd(line) }
    enqueue(line)
  }

  /// The end of an attempt is committed.
  mutating func end(_ run: TaskRun, _ entry: LineEntry?) {
    let (isReleased, wasEnded) = run.state.withLock { state in
      defer { state.isEnded = true }
      state.isSettled = true
      return (state.isReleased, state.isEnded)
    }
    running[run.id] = nil
    if !isReleased { abandonable[run.id] = run }
    parents.remove(run.id)
    guard let line = lines[run.record.position.line] else {
      if let entry { insert(entry, run.record.position.line) }
      return
    }
    line.noteEnded(run.id)
    if let entry {
      line.insert(entry)
      waitForHead(line, entry)
    }
    if line.rules.isSerial, isReleased, !wasEnded { countEnd(line) }
    enqueue(line)
  }

  /// In a serial queue the claim of the next task goes into the commit that says that this one is done: it begins after that.
  mutating func endEarly(_ settlement: TaskSettlement) {
    let run = settlement.run
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

  /// The commit was not made.
  mutating func undoEnd(_ settlement: TaskSettlement) {
    let run = settlement.run
    guard run.rules.isSerial, run.state.withLock({ $0.isEnded }), let line = lines[run.record.position.line] else {
      return
    }
    run.state.withLock { $0.isEnded = false }
    line.countRun(1)
  }

  /// The head of a serial queue waits to be run again: when its time comes the line is looked at.
  mutating func waitForHead(_ line: TaskLine, _ entry: LineEntry) {
    guard let host, entry.state == .retryWait, let value = entry.value,
      let record = try? TaskRecord(value, stamp: entry.stamp)
    else { return }
    let wait = Duration.milliseconds(record.position.due - WallTime.milliseconds(host.clock.wallNow))
    let deadline = host.clock.continuousNow + max(.zero, min(wait, .milliseconds(record.delay)))
    timers.insert(
      TaskTimers.Entry(deadline: deadline, wall: nil, suspending: nil, action: .line(line.id, key: entry.key)))
  }
}
