internal import FutexLocks
internal import Synchronization
public import Varve

/// The tasks that are next, in memory: lines of queues, timers, and what runs. Stands at the last acknowledged commit.
///
/// Whatever a commit says comes by `acknowledge`; whatever a scheduler does comes by `takeWork` and what follows it. One short
/// lock is around all of it.
public final class TaskDispatcher: Sendable {
  struct State: ~Copyable {
    var names: [QueueName: TaskNames.Queue] = [:]
    var texts: [UInt32: QueueName] = [:]
    /// Lines that have tasks, or run some.
    var lines: [LineID: TaskLine] = [:]
    var families: [UInt32: QueueFamily] = [:]
    /// Families that have no lines, and may be forgotten.
    var emptied: [QueueFamily] = []
    var emptiedIndex = 0
    /// Queues whose tasks move up after a time.
    var ageing: Set<UInt32> = []
    /// Tokens of queues as the disk had them at the start.
    var storedTokens: [UInt32: TokenBucket] = [:]
    /// Lines that may start a task, in turn.
    var ring: [LineID] = []
    var ringBegin = 0
    var timers = TaskTimers()
    var running: [TaskID: TaskRun] = [:]
    /// How many attempts are claimed and have a worker, or wait for one. Handlers that have not returned, of attempts that are
    /// over, count too.
    var busyCount = 0
    /// How many handlers run.
    var startedCount = 0
    /// Attempts that are claimed and wait for a worker, from `claimedBegin` on.
    var claimed: [TaskRun] = []
    var claimedBegin = 0
    /// Whether a worker waits shortly for its next attempt, and the attempt that it gets.
    var isWorkerWaiting = false
    var handedOver: TaskRun?
    /// How long handlers take, in nanoseconds: a moving average; 0: none has run.
    var averageRun = 0.0
    var settlements: [TaskSettlement] = []
    /// Tasks that transactions are changing, and how many of these.
    var held: [TaskID: Int] = [:]
    /// Tasks that were next while they were held.
    var aside: [TaskID: (line: LineID, entry: LineEntry)] = [:]
    /// Tasks whose time came while they were held, by the keys of their rows.
    var heldTimers: [TaskID: [UInt8]] = [:]
    /// Serial queues whose heads are held.
    var heldLines: [TaskID: LineID] = [:]
    /// Tasks that others depend on, as far as they are known.
    var parents = TaskParents()
    /// Tasks whose children are to receive that they have ended.
    var pending: [TaskID] = []
    /// Those of them that have children which transactions are changing.
    var heldPending: [TaskID] = []
    /// What callers want changed.
    var requests: [TaskRequest] = []
    /// Whether a commit of the scheduler is made, and which rows transactions have removed since it began.
    var isCommitting = false
    var removedMeanwhile: Set<[UInt8]> = []
    /// Attempts that are over and whose handlers have not returned.
    var abandonable: [TaskID: TaskRun] = [:]
    /// Whether the next task is one that may have made a process die.
    var isSuspectNext = false
    var nextID: UInt64 = 1
    /// Ids up to this one may be given without a note on disk.
    var lastID: UInt64 = 0
    /// What runs tasks; nil: nothing does.
    var host: Host?
    /// The last commit with tasks that was acknowledged. Readers may see it a little later.
    var acknowledged = CommitVersion.zero
    /// Whether the lines of all queues that have tasks are known. Until then no work is taken: a claim made beside the recovery of a
    /// start would look like one of a process that died.
    var isDiscovered = false
    var handlers = TaskHandlers()
    /// Whether a caller takes work, or will.
    var isPumping = false
    /// Whether no more tasks are taken.
    var isStopping = false
    /// Whether no task is taken, because the database is a copy.
    var areAllHeld = false
    /// Whether a task runs alone, because a process has died while it ran.
    var hasSuspect = false
    /// Whether rows of timers are being read.
    var isLoadingTimers = false
    /// Timers that came meanwhile, after those in memory.
    var missedTimers: [TaskDelta.Timer] = []
    /// Wall time minus continuous time, in milliseconds, at the last look.
    var wallOffset: Int64 = 0
    /// Kinds that were met and have no handler.
    var unhandled: Set<String> = []
  }

  /// What runs tasks.
  struct Host: Sendable {
    let clock: any SchedulerClock
    let workers: Int
    let start: UInt32
    let rules: @Sendable (QueueName) -> QueueRules
    /// Called without the lock where there is work that no one takes.
    let wake: @Sendable () -> Void
    /// Called without the lock where the next timer may be another.
    let timersChanged: @Sendable () -> Void
    /// Called without the lock where the tasks of a copy may run from now on.
    let released: @Sendable () -> Void
  }

  let state: FutexLock<State>
  let openParents = OpenParents()
  let worker: DatabaseWorker
  /// That of the database.
  let incarnation: UInt64
  private let clock: Mutex<any SchedulerClock>
  /// How often a handler has ended.
  let endCount = Atomic<UInt64>(0)
  /// Whether some queue has a limit of waiting tasks.
  let hasWaitingLimits = Atomic(false)
  /// What sees tasks when they are enqueued; nil: nothing does.
  private let hook = Mutex<(any EnqueueHook)?>(nil)
  private let hasHook = Atomic(false)
  /// How often attempts were handed to a worker that waited.
  let handCount = Atomic<UInt64>(0)

  init(worker: DatabaseWorker, incarnation: UInt64) {
    self.worker = worker
    self.incarnation = incarnation
    clock = Mutex(SystemSchedulerClock())
    state = FutexLock(State())
  }

  /// The time of day, in milliseconds since 1970.
  var wallNow: Int64 { WallTime.milliseconds(usedClock.wallNow) }
  var usedClock: any SchedulerClock { clock.withLock { $0 } }

  var middleware: (any EnqueueHook)? { hasHook.load(ordering: .acquiring) ? hook.withLock { $0 } : nil }

  /// What sees tasks when they are enqueued.
  func use(_ middleware: (any EnqueueHook)?) {
    hook.withLock { $0 = middleware }
    hasHook.store(middleware != nil, ordering: .releasing)
  }

  /// Tasks are enqueued by another clock from now on.
  func use(_ clock: any SchedulerClock) { self.clock.withLock { $0 = clock } }

  func load(_ names: TaskNames, lastID: Int64, areHeld: Bool) {
    state.withLock { state in
      state.areAllHeld = areHeld
      state.names = names.queues
      for (name, queue) in names.queues { state.texts[queue.number] = name }
      state.lastID = UInt64(max(0, lastID))
      state.nextID = max(state.nextID, state.lastID + 1)
    }
  }

  // MARK: - The host

  /// Whether something runs tasks.
  var isAttached: Bool { state.withLock { $0.host != nil } }

  /// From now on a host runs the tasks. False: another one does.
  func attach(_ host: Host, _ handlers: TaskHandlers) -> Bool {
    state.withLock { state in
      guard state.host == nil else { return false }
      state.host = host
      state.handlers = handlers
      state.isStopping = false
      state.isDiscovered = false
      state.wallOffset = WallTime.passed(host.clock.wallNow) - host.clock.continuousNow.milliseconds
      return true
    }
  }

  /// Whether no task is taken, because the database is a copy.
  var areAllHeld: Bool { state.withLock { $0.areAllHeld } }

  /// The queues that have tasks in line are known, and others have none on disk: the host takes work from now on.
  func discover(_ lines: [LineID]) {
    let host = state.withLock { state in
      for id in lines {
        guard let line = state.line(id, isOnDisk: true) else { continue }
        state.enqueue(line)
      }
      state.isDiscovered = true
      return state.pumping()
    }
    host?.wake()
  }

  /// Tasks that others depend on, as the disk has them, and those whose children are left.
  func load(parents: [TaskID], areAll: Bool, pending: [TaskID]) {
    state.withLock { state in
      if !areAll { state.parents.forget(upTo: state.nextID) }
      for id in parents { state.parents.insert(id) }
      // Commits that were acknowledged since the disk was read have added theirs.
      let known = Set(state.pending)
      state.pending += pending.filter { !known.contains($0) }
    }
  }

  /// The tokens of queues, as the disk has them. A queue that a commit has brought into memory since the start began receives its own.
  func load(_ tokens: [UInt32: TokenBucket]) {
    state.withLock { state in
      guard let clock = state.host?.clock else { return }
      let offset = clock.continuousNow.milliseconds - WallTime.milliseconds(clock.wallNow)
      state.storedTokens = tokens.mapValues { $0.shifted(by: offset) }
      for (number, family) in state.families {
        if let bucket = state.storedTokens.removeValue(forKey: number) { family.load(bucket) }
      }
    }
  }

  /// No more tasks begin.
  func stop() -> [TaskRun] {
    state.withLock { state in
      state.isStopping = true
      return Array(state.running.values)
    }
  }

  /// Nothing runs tasks any more.
  func detach() {
    let requests = state.withLock { state in
      defer { state.requests = [] }
      return state.requests
    }
    openParents.removeAll()
    for request in requests { request.fail(DatabaseError(.closed, "the scheduler has stopped")) }
    state.withLock { state in
      state.host = nil
      state.isCommitting = false
      state.removedMeanwhile = []
      state.handlers = TaskHandlers()
      state.unhandled = []
      state.lines = [:]
      state.families = [:]
      state.emptied = []
      state.storedTokens = [:]
      state.ageing = []
      state.parents = TaskParents()
      state.pending = []
      state.heldPending = []
      state.ring = []
      state.ringBegin = 0
      state.timers.removeAll()
      state.running = [:]
      state.busyCount = 0
      state.startedCount = 0
      state.claimed = []
      state.claimedBegin = 0
      state.handedOver = nil
      state.settlements = []
      state.aside = [:]
      state.heldTimers = [:]
      state.abandonable = [:]
      state.hasSuspect = false
      state.missedTimers = []
      state.isLoadingTimers = false
      state.isPumping = false
    }
  }

  /// Time has passed: something may be due. Returns what is to be woken.
  func timerFired() -> Host? { state.withLock { $0.pumping() } }

  /// How many handlers run, and whether there is anything to do now.
  var load: (running: Int, hasWork: Bool) {
    state.withLock {
      ($0.busyCount, $0.isPumping || !$0.settlements.isEmpty || !$0.running.isEmpty || !$0.requests.isEmpty)
    }
  }

  /// The host has other handlers now: tasks that waited for one are looked at again.
  func use(_ handlers: TaskHandlers) {
    let host = state.withLock { state in
      state.handlers = handlers
      state.unhandled = []
      for line in state.lines.values {
        line.lookAgain()
        state.enqueue(line)
      }
      return state.wakingHost()
    }
    host?.wake()
  }

  /// The kinds of tasks that were to be run and have no handler.
  var unhandledKinds: [String] { state.withLock { $0.unhandled.sorted() } }

  /// Serial queues whose head is dead or parked, with its id and state.
  var blockedHeads: [(queue: QueueName, id: TaskID, state: TaskState)] {
    state.withLock { state in
      state.lines.values.compactMap { line in
        guard line.rules.isSerial, let first = line.first, first.state == .dead || first.state == .parked else {
          return nil
        }
        return (line.name, first.id, first.state)
      }.sorted { $0.0 < $1.0 }
    }
  }

  // MARK: - For transactions

  /// The queue of a name, as of the last acknowledged commit.
  func queue(_ name: QueueName) -> TaskNames.Queue? { state.withLock { $0.names[name] } }
  func name(_ number: UInt32) -> QueueName? { state.withLock { $0.texts[number] } }

  /// So many ids at once are noted on disk.
  static let idBlock: UInt64 = 1 << 16

  /// Ids that were never given, and the note that the disk needs of them; nil: it has one.
  func takeIDs(_ count: Int) -> (first: UInt64, last: UInt64?) {
    state.withLock { state in
      let first = state.nextID
      state.nextID += UInt64(count)
      return (first, state.nextID - 1 > state.lastID ? state.nextID - 1 + Self.idBlock : nil)
    }
  }

  /// Whether an id was ever given.
  func isKnown(_ id: TaskID) -> Bool { state.withLock { id.rawValue > 0 && id.rawValue < $0.nextID } }

  /// How many tasks of a queue may wait; nil: without a limit, or nothing runs tasks here.
  func maxWaiting(_ queue: QueueName) -> Int? {
    guard hasWaitingLimits.load(ordering: .relaxed) else { return nil }
    return state.withLock { $0.host }?.rules(queue).maxWaiting
  }

  /// No claim takes a task until `release`. Returns the attempt where it runs.
  func hold(_ id: TaskID) -> TaskRun? {
    state.withLock { state in
      if let run = state.running[id] { return run }
      state.held[id, default: 0] += 1
      return nil
    }
  }

  /// The attempt of a task that runs; nil where it does not.
  func run(_ id: TaskID) -> TaskRun? { state.withLock { $0.running[id] } }

  func release(_ ids: Set<TaskID>) {
    let host = state.withLock { state in
      var isDue = false
      for id in ids {
        let count = (state.held[id] ?? 1) - 1
        state.held[id] = count > 0 ? count : nil
        if count > 0 { continue }
        if let held = state.heldLines.removeValue(forKey: id), let line = state.lines[held] { state.enqueue(line) }
        if let key = state.heldTimers.removeValue(forKey: id), let host = state.host {
          isDue = true
          state.timers.insert(
            TaskTimers.Entry(
              deadline: host.clock.continuousNow, wall: nil, suspending: nil, action: .task(id, key: key)))
        }
        guard let (line, entry) = state.aside.removeValue(forKey: id) else { continue }
        state.insert(entry, line)
      }
      if !state.heldPending.isEmpty {
        state.pending += state.heldPending
        state.heldPending = []
        isDue = true
      }
      return isDue ? state.pumping() : state.wakingHost()
    }
    host?.wake()
  }

  // MARK: - Commits

  /// What the disk is read for has to be read at this commit or a later one.
  var acknowledged: CommitVersion { state.withLock { $0.acknowledged } }

  func acknowledge(_ delta: TaskDelta, _ version: CommitVersion) {
    let (host, timersChanged, released) = state.withLock { state in
      let released = delta.releasesAll && state.areAllHeld ? state.host : nil
      if delta.releasesAll { state.areAllHeld = false }
      state.acknowledged = max(state.acknowledged, version)
      for (name, queue) in delta.names { state.note(name, queue) }
      state.lastID = max(state.lastID, delta.lastID)
      for (lineID, id, key) in delta.removed {
        state.aside[id] = nil
        if state.isCommitting { state.removedMeanwhile.insert(key) }
        guard let line = state.lines[lineID] else { continue }
        line.remove(id, key: key)
        // It may have been the head that the queue waited for.
        state.enqueue(line)
      }
      guard let host = state.host else { return (Host?.none, false, Host?.none) }
      for id in delta.parents { state.parents.insert(id) }
      state.pending += delta.pending
      for (line, entry) in delta.entries { state.insert(entry, line) }
      for (lineID, key) in delta.more {
        guard let line = state.line(lineID) else { continue }
        line.noteMore(from: key)
        state.enqueue(line)
      }
      let before = state.timers.first?.deadline
      for timer in delta.timers { state.insert(timer, host) }
      if let key = delta.moreTimers { state.noteMoreTimers(from: key) }
      for id in delta.cancelled {
        guard let run = state.running[id] else {
          state.requests.append(TaskRequest(.cancelMissed, [id]))
          continue
        }
        run.state.withLock { $0.isCancelling = true }
        run.state.withLock { $0.task }?.cancel()
      }
      let isEarlier = state.timers.first.map { first in before.map { first.deadline < $0 } ?? true } ?? false
      return (state.wakingHost(), isEarlier, released)
    }
    host?.wake()
    released?.released()
    if timersChanged { state.withLock { $0.host }?.timersChanged() }
  }
}

extension TaskDispatcher.State {
  mutating func note(_ name: QueueName, _ queue: TaskNames.Queue) {
    names[name] = queue
    texts[queue.number] = name
    guard let family = families[queue.number] else { return }
    family.isPaused = queue.isPaused
    if family.lineCount > 1 {
      for line in lines.values where line.id.queue == queue.number { enqueue(line) }
    } else if let line = lines[LineID(queue: queue.number)] {
      enqueue(line)
    } else {
      for line in lines.values where line.id.queue == queue.number { enqueue(line) }
    }
  }

  /// A line, made where it does not exist.
  mutating func line(_ id: LineID, isOnDisk: Bool? = nil) -> TaskLine? {
    if let line = lines[id] { return line }
    guard let family = family(id.queue) else { return nil }
    // Until all are known, whatever a queue has may be on disk.
    let line = TaskLine(id, family, isOnDisk: isOnDisk ?? !isDiscovered)
    lines[id] = line
    family.lineCount += 1
    beginAgeing(family)
    return line
  }

  private mutating func family(_ number: UInt32) -> QueueFamily? {
    if let family = families[number] { return family }
    guard let host, let name = texts[number] else { return nil }
    let family = QueueFamily(
      number, name, host.rules(name), isPaused: names[name]?.isPaused ?? false,
      storedTokens.removeValue(forKey: number))
    families[number] = family
    return family
  }

  private mutating func beginAgeing(_ family: QueueFamily) {
    guard let host, let wait = family.rules.ageing, !family.rules.isSerial, ageing.insert(family.number).inserted else {
      return
    }
    timers.insert(
      TaskTimers.Entry(
        deadline: host.clock.continuousNow + wait, wall: nil, suspending: nil, action: .ageing(family.number)))
  }

  /// Nothing is left of a line.
  mutating func remove(_ line: TaskLine) {
    lines[line.id] = nil
    let family = line.family
    family.lineCount -= 1
    if family.lineCount == 0, !family.isEmptied {
      family.isEmptied = true
      emptied.append(family)
    }
    forgetFamilies()
  }

  /// Families without lines go when their tokens have come back. Two are looked at for each line that goes: so there are never more
  /// of them than lines that have gone, and no timer waits for it.
  private mutating func forgetFamilies() {
    guard let host else { return }
    for _ in 0..<min(2, emptied.count) {
      if emptiedIndex >= emptied.count { emptiedIndex = 0 }
      let family = emptied[emptiedIndex]
      if family.lineCount == 0, !family.isIdle(host.clock.continuousNow.milliseconds) {
        emptiedIndex += 1
        continue
      }
      family.isEmptied = false
      if family.lineCount == 0 { families[family.number] = nil }
      emptied.swapAt(emptiedIndex, emptied.count - 1)
      emptied.removeLast()
    }
  }

  mutating func insert(_ entry: LineEntry, _ id: LineID) {
    guard let line = line(id) else { return }
    line.insert(entry)
    // A head that waits was written again.
    if entry.state == .retryWait { waitForHead(line, entry) }
    enqueue(line)
  }

  /// A line may start a task.
  mutating func enqueue(_ line: TaskLine) {
    if line.isQueued { return }
    line.isQueued = true
    ring.append(line.id)
  }

  mutating func nextLine() -> TaskLine? {
    while ringBegin < ring.count {
      let id = ring[ringBegin]
      ringBegin += 1
      if ringBegin == ring.count {
        ring.removeAll(keepingCapacity: true)
        ringBegin = 0
      } else if ringBegin >= 4_096 {
        ring.removeFirst(ringBegin)
        ringBegin = 0
      }
      guard let line = lines[id] else { continue }
      line.isQueued = false
      return line
    }
    return nil
  }

  /// How many lines may start a task.
  var ringCount: Int { ring.count - ringBegin }

  /// What is to be woken, because there is work that no one takes. The caller wakes it.
  mutating func wakingHost() -> TaskDispatcher.Host? {
    guard let host, isDiscovered, !isPumping else { return nil }
    guard
      !settlements.isEmpty || !pending.isEmpty || !requests.isEmpty
        || (ringCount > 0 && busyCount < claimMaximum(host) && !isStopping && !areAllHeld)
    else { return nil }
    isPumping = true
    return host
  }

  /// A look is due that no one takes.
  mutating func pumping() -> TaskDispatcher.Host? {
    guard let host, isDiscovered, !isPumping else { return nil }
    isPumping = true
    return host
  }

  // MARK: - Timers

  mutating func insert(_ timer: TaskDelta.Timer, _ host: TaskDispatcher.Host) {
    if let end = timers.end, !LineEntry.precedes(timer.key, end) {
      if isLoadingTimers { missedTimers.append(timer) }
      return
    }
    add(timer, host.clock)
  }

  /// From a key on rows of timers are on disk that are not in memory.
  mutating func noteMoreTimers(from key: [UInt8]) {
    if timers.end.map({ LineEntry.precedes(key, $0) }) ?? true { timers.end = key }
  }

  mutating func add(_ timer: TaskDelta.Timer, _ clock: any SchedulerClock) {
    let deadline = timer.deadline ?? clock.continuousNow + WallTime.wait(from: clock.wallNow, to: timer.due)
    timers.insert(
      TaskTimers.Entry(
        deadline: deadline, wall: timer.deadline == nil ? timer.due : nil, suspending: nil,
        action: .task(timer.id, key: timer.key)))
  }
}
