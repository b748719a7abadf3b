internal import FutexLocks
internal import Synchronization
internal import Varve

/// The tasks that run next, in memory: lines of queues, timers, and running attempts, as of the last acknowledged
/// commit.
///
/// The effects of commits of transactions arrive by `acknowledge`, those of the scheduler's work by `takeWork` and the
/// methods that follow it. One lock protects the whole state, and is held only for a short time.
public final class TaskDispatcher: Sendable {
  struct State: ~Copyable {
    var names: [QueueName: TaskNames.Queue] = [:]
    var texts: [UInt32: QueueName] = [:]
    /// The lines that have tasks, or run some.
    var lines: [LineID: TaskLine] = [:]
    var families: [UInt32: QueueFamily] = [:]
    /// The families that have no lines, and may be forgotten.
    var emptied: [QueueFamily] = []
    var emptiedIndex = 0
    /// The queues whose tasks move up after a time.
    var ageing: Set<UInt32> = []
    /// The tokens of queues as they were on disk at the start.
    var storedTokens: [UInt32: TokenBucket] = [:]
    /// The lines that may start a task, in turn.
    var ring = LineQueue()
    var timers = TaskTimers()
    var running: [TaskID: TaskRun] = [:]
    /// The tasks that do not run until the next start, because what notes their last attempt can't be read or written.
    /// The value says whether the attempt was done. If it was not, no other task of a serial queue overtakes the task.
    var left: [TaskID: Bool] = [:]
    /// The number of workers that have an attempt. Attempts that have ended count, too, as long as their handlers have
    /// not returned.
    var busyCount = 0
    /// The claims that were made ahead, of tasks that are in line. A task with such a claim begins without a commit when
    /// it is its turn.
    var ahead: [TaskID: ClaimAhead] = [:]
    /// The keys of claims that were made ahead, and whose tasks have changed or left their lines since.
    var strayClaims: [[UInt8]] = []
    /// The attempts that have begun by claims made ahead, of which no row notes yet that they have begun. Each has the
    /// number of the turn in which it began.
    var unnoted: [(run: TaskRun, turn: UInt64)] = []
    /// The lines from which tasks have begun since claims of their next tasks were made ahead.
    var wantingClaims: [LineID] = []
    /// The number of turns of the loop.
    var turn: UInt64 = 0
    /// Whether a request was left out of the last turn, because it is about many tasks.
    var isRequestNext = false
    /// The number of rows that the turn of the loop has read up to now.
    var turnRowCount = 0
    /// The largest numbers of tasks and rows that a turn of the loop has handled.
    var largestTurn = (tasks: 0, rows: 0)
    /// Whether a worker waits briefly for its next attempt. `handedOver` is the attempt that it gets.
    var isWorkerWaiting = false
    var handedOver: TaskRun?
    var settlements: [TaskSettlement] = []
    /// The tasks that transactions are changing, each with the number of these transactions.
    var held: [TaskID: Int] = [:]
    /// The tasks that the commit of the scheduler which is being made may change, besides those whose attempts begin or
    /// end in it.
    var changing: Set<TaskID> = []
    /// The tasks that were next in line while they were held, or while they had to wait because a process has died with
    /// them. Others overtake them.
    var aside: [TaskID: (line: LineID, entry: LineEntry)] = [:]
    /// The tasks whose time came while they were held, with the keys of their rows.
    var heldTimers: [TaskID: [UInt8]] = [:]
    /// The serial queues whose heads are held.
    var heldLines: [TaskID: LineID] = [:]
    /// The tasks that others depend on, as far as they are known.
    var parents = TaskParents()
    /// The tasks that have ended, and whose children are to receive this.
    var pending: [TaskID] = []
    /// The tasks that have ended, and some of whose children can't receive this while transactions are open.
    var heldPending: [TaskID] = []
    /// The changes that callers have requested.
    var requests: [TaskRequest] = []
    /// Whether a commit of the scheduler is being made. `removedMeanwhile` has the rows that transactions have removed
    /// since.
    var isCommitting = false
    var removedMeanwhile: Set<[UInt8]> = []
    /// The attempts that have ended, and whose handlers have not returned.
    var abandonable: [AttemptKey: TaskRun] = [:]
    /// The attempts whose handlers wait for a stop. All of them have a worker.
    var stopCallers: Set<AttemptKey> = []
    /// The task beside which no other task begins, because a process has died while it ran, or `nil` if none is.
    var suspect: Suspect?
    /// The time on the continuous clock until which other tasks may begin before the next task of this kind.
    var othersEnd = Duration.zero
    /// The lines whose next task is of this kind, and waits until then.
    var postponed: [LineID] = []
    /// The tasks of this kind that were set aside until then, in the order in which they are tried again. Some may not
    /// be in `aside` any more.
    var postponedTasks: [TaskID] = []
    var nextID: UInt64 = 1
    /// The id up to which ids may be assigned without a record on disk.
    var lastID: UInt64 = 0
    /// The host that runs tasks, or `nil` if none does.
    var host: Host?
    /// The last acknowledged commit with tasks. Readers may see it slightly later.
    var acknowledged = CommitVersion.zero
    /// The number of the last start that has recovered the tasks of all earlier ones, or `nil` if there was none since
    /// the database was opened. All claims on disk are of this start.
    var recoveredStart: UInt32?
    /// Whether the lines of all queues that have tasks are known.
    ///
    /// Until then no work is taken: a claim made during the recovery of a start would look like one of a process that
    /// died.
    var isDiscovered = false
    var handlers = TaskHandlers()
    /// Whether a caller takes work, or is about to.
    var isPumping = false
    /// Whether no more tasks are taken.
    var isStopping = false
    /// Whether no task is taken, because the database is a copy.
    var areAllHeld = false
    /// Whether no task begins or becomes ready, because the disk is full: its handler could write nothing.
    var isDiskFull = false
    /// Whether rows of timers are being read.
    var isLoadingTimers = false
    /// The timers that came while rows of timers are being read, and that are after those in memory.
    var missedTimers: [TaskDelta.Timer] = []
    /// The first of the keys from which on timers came while rows of timers are being read that are only on disk, or
    /// `nil` if none came.
    var moreTimersMeanwhile: [UInt8]?
    /// Wall time minus continuous time, in milliseconds, at the last check.
    var wallOffset: Int64 = 0
    /// What the wall clock showed before it was set.
    var wallSpans = WallSpans(from: 0, offset: 0)
    /// The kinds of tasks that were due to run and have no handler.
    var unhandled: Set<String> = []
  }

  /// The scheduler that runs tasks, as seen by the dispatcher.
  struct Host: Sendable {
    let clock: any SchedulerClock
    let workers: Int
    /// The time after its cancellation in which a handler has to return.
    let abandonAfter: Duration
    let start: UInt32
    let rules: @Sendable (QueueName) -> QueueRules
    /// Whether claims may be made ahead.
    var claimsAhead = true
    /// Called without the lock when there is work that no caller takes.
    let wake: @Sendable () -> Void
    /// Called without the lock when the next timer may have changed.
    let timersChanged: @Sendable () -> Void
    /// Called without the lock when the tasks of a copy may run from now on.
    let released: @Sendable () -> Void
    /// Counts what the scheduler does.
    var recorder = TaskStatisticsRecorder()
  }

  /// A claim that is written before a worker is free for its task.
  struct ClaimAhead {
    let run: TaskRun
    /// Whether the commit with the claim was made.
    var isWritten = false
  }

  /// A task that a process has died with, and that runs alone for a time, or waits until the others have ended.
  struct Suspect {
    let id: TaskID
    /// The time on the continuous clock since which it waits or runs.
    let since: Duration
    let hasBegun: Bool
  }

  let state: FutexLock<State>
  let openParents = OpenParents()
  let blockedChildren = BlockedChildren()
  let worker: DatabaseWorker
  /// The incarnation of the database.
  let incarnation: UInt64
  private let clock: Mutex<any SchedulerClock>
  /// The number of handlers that have ended.
  let endCount = Atomic<UInt64>(0)
  /// Whether some queue has a limit of waiting tasks.
  let hasWaitingLimits = Atomic(false)
  /// The hook that is called when tasks are enqueued, or `nil` if no hook was set.
  private let hook = Mutex<(any EnqueueHook)?>(nil)
  private let hasHook = Atomic(false)
  /// The number of attempts that were handed to a waiting worker.
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

  /// Sets the hook that is called when tasks are enqueued.
  func use(_ middleware: (any EnqueueHook)?) {
    hook.withLock { $0 = middleware }
    hasHook.store(middleware != nil, ordering: .releasing)
  }

  /// Sets the clock by which tasks are enqueued from now on.
  func use(_ clock: any SchedulerClock) { self.clock.withLock { $0 = clock } }

  func loadNames(_ names: TaskNames, lastID: Int64, areHeld: Bool) {
    state.withLock { state in
      state.areAllHeld = areHeld
      state.names = names.queues
      for (name, queue) in names.queues { state.texts[queue.number] = name }
      state.lastID = UInt64(max(0, lastID))
      state.nextID = max(state.nextID, state.lastID + 1)
    }
  }

  // MARK: - The host

  /// Whether a host runs tasks.
  var isAttached: Bool { state.withLock { $0.host != nil } }

  /// Whether the host of a start runs tasks.
  func isHost(_ start: UInt32) -> Bool { state.withLock { $0.isOfHost(start) } }

  /// Attaches a host, which runs the tasks from now on. Returns false if another host is attached.
  func attach(_ host: Host, _ handlers: TaskHandlers) -> Bool {
    state.withLock { state in
      guard state.host == nil else { return false }
      state.host = host
      state.handlers = handlers
      state.isStopping = false
      state.isDiscovered = false
      let wall = WallTime.passed(host.clock.wallNow)
      state.wallOffset = wall - host.clock.continuousNow.milliseconds
      state.wallSpans = WallSpans(from: wall, offset: state.wallOffset)
      return true
    }
  }

  /// Whether no task is taken, because the database is a copy.
  var areAllHeld: Bool { state.withLock { $0.areAllHeld } }

  /// Whether no task begins, because the disk was full at the last turn of the loop.
  var isDiskFull: Bool { state.withLock { $0.isDiskFull } }

  /// Adds the lines that have tasks on disk, and lets the host take work. All other lines have no tasks on disk.
  func discover(_ lines: [LineID]) {
    let host = state.withLock { state in
      for id in lines {
        guard let line = state.line(id, isOnDisk: true) else { continue }
        state.enqueue(line)
      }
      state.isDiscovered = true
      state.recoveredStart = state.host?.start
      return state.beginPumping()
    }
    host?.wake()
  }

  /// Adds the tasks that others depend on, as read from disk, and those whose children are left.
  ///
  /// `areAll` says whether `parents` has all tasks that others depend on.
  func loadParents(_ parents: [TaskID], areAll: Bool, pending: [TaskID]) {
    state.withLock { state in
      if !areAll { state.parents.forget(upTo: state.nextID) }
      for id in parents { state.parents.insert(id) }
      // Commits that were acknowledged since the disk was read have added their tasks.
      let known = Set(state.pending)
      state.pending += pending.filter { !known.contains($0) }
    }
  }

  /// Sets the tokens of queues, as read from disk, also of queues that commits have brought into memory since the start
  /// began.
  func loadTokens(_ tokens: [UInt32: TokenBucket]) {
    state.withLock { state in
      guard let clock = state.host?.clock else { return }
      let offset = clock.continuousNow.milliseconds - WallTime.milliseconds(clock.wallNow)
      state.storedTokens = tokens.mapValues { $0.shifted(by: offset) }
      for (number, family) in state.families {
        if let bucket = state.storedTokens.removeValue(forKey: number) { family.loadTokens(bucket) }
      }
    }
  }

  /// Detaches the host, and fails the requests of callers.
  func detach() {
    let requests = state.withLock { state in
      defer { state.requests = [] }
      state.host = nil
      state.isCommitting = false
      state.removedMeanwhile = []
      state.changing = []
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
      state.ring = LineQueue()
      state.timers.removeAll()
      state.running = [:]
      state.left = [:]
      state.busyCount = 0
      state.ahead = [:]
      state.strayClaims = []
      state.unnoted = []
      state.wantingClaims = []
      state.handedOver = nil
      state.settlements = []
      state.aside = [:]
      state.heldTimers = [:]
      state.abandonable = [:]
      state.stopCallers = []
      state.suspect = nil
      state.othersEnd = .zero
      state.postponed = []
      state.postponedTasks = []
      state.missedTimers = []
      state.moreTimersMeanwhile = nil
      state.isLoadingTimers = false
      state.isPumping = false
      return state.requests
    }
    openParents.removeAll()
    blockedChildren.removeAll()
    for request in requests { request.fail(DatabaseError(.closed, "the scheduler has stopped")) }
  }

  /// Notes that work may be due. Returns the host if it is to be woken.
  func timerFired() -> Host? { state.withLock { $0.beginPumping() } }

  /// Adds a handler to those of the host. The tasks in its queues that waited for it are taken into account again.
  func use(_ handler: RegisteredHandler) {
    let host = state.withLock { state in
      // It may be among those that a start has set.
      // A line passes tasks only of kinds that are noted.
      if state.handlers.addIfNew(handler), state.unhandled.remove(handler.kind) != nil {
        for line in state.lines.values { state.lookAgain(line) }
      }
      return state.wakingHost()
    }
    host?.wake()
  }

  /// Sets the handlers of the host. Tasks that waited for a handler are taken into account again.
  ///
  /// `handlers` is called with the lock held, so that of several calls at once the last one sets the newest handlers.
  func use(_ handlers: () -> TaskHandlers) {
    let host = state.withLock { state in
      state.handlers = handlers()
      state.unhandled = []
      for line in state.lines.values { state.lookAgain(line) }
      return state.wakingHost()
    }
    host?.wake()
  }

  /// The kinds of tasks that were due to run and have no handler.
  var unhandledKinds: [String] { state.withLock { $0.unhandled.sorted() } }

  /// The serial queues whose head is dead or parked, with its id and state.
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

  // MARK: - Commits

  /// The commit as of which, or of a later one, the disk must be read.
  var acknowledged: CommitVersion { state.withLock { $0.acknowledged } }

  func acknowledge(_ delta: TaskDelta, _ version: CommitVersion) {
    var cancelled: [Task<Void, Never>] = []
    let (host, timersChanged, released) = state.withLock { state in
      let released = delta.releasesAll && state.areAllHeld ? state.host : nil
      if delta.releasesAll { state.areAllHeld = false }
      state.acknowledged = max(state.acknowledged, version)
      state.note(delta.names)
      state.lastID = max(state.lastID, delta.lastID)
      for (lineID, id, key) in delta.removed {
        state.dropAside(id, key)
        state.dropAhead(id, key)
        if state.isCommitting { state.removedMeanwhile.insert(key) }
        guard let line = state.lines[lineID] else { continue }
        line.remove(id, key: key)
        // The removed task may have been the head that the queue waited for.
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
      for (parent, child) in delta.waits { state.note(child, waitingFor: parent, host) }
      for key in delta.removedTimers { state.timers.removeTask(key) }
      for timer in delta.timers { state.insert(timer, host) }
      if let key = delta.moreTimers { state.noteMoreTimers(from: key) }
      var missed: [TaskID] = []
      for id in delta.cancelled {
        guard let run = state.running[id] else {
          missed.append(id)
          continue
        }
        if let task = state.cancel(run) { cancelled.append(task) }
      }
      for begin in stride(from: 0, to: missed.count, by: TaskWork.batchMaximum) {
        let ids = Array(missed[begin...].prefix(TaskWork.batchMaximum))
        state.requests.append(TaskRequest(.cancelMissed, ids))
      }
      return (state.wakingHost(), state.timers.first?.deadline != before, released)
    }
    for task in cancelled { task.cancel() }
    host?.wake()
    released?.released()
    if timersChanged { state.withLock { $0.host }?.timersChanged() }
  }
}

extension TaskDispatcher.State {
  /// Notes new or changed queues. The lines of one that was resumed continue their turns.
  mutating func note(_ queues: [(name: QueueName, queue: TaskNames.Queue)]) {
    for (name, queue) in queues {
      names[name] = queue
      texts[queue.number] = name
      guard let family = families[queue.number] else { continue }
      family.isPaused = queue.isPaused
      callNext(of: family)
    }
  }

  /// Returns a line, which is made if it does not exist. Returns `nil` if no host runs tasks, or if the queue is not
  /// known.
  mutating func line(_ id: LineID, isOnDisk: Bool? = nil) -> TaskLine? {
    if let line = lines[id] { return line }
    guard let family = family(id.queue) else { return nil }
    // Until all lines are known, any of them may have tasks on disk.
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
    guard let host, let wait = family.rules.ageingTime, ageing.insert(family.number).inserted else { return }
    timers.insert(
      TaskTimers.Entry(
        deadline: host.clock.continuousNow + wait, wall: nil, suspending: nil, action: .ageing(family.number)))
  }

  /// Removes a line that has no task and runs none.
  mutating func remove(_ line: TaskLine) {
    lines[line.id] = nil
    let family = line.family
    family.lineCount -= 1
    if family.endCall(line) { callNext(of: family) }
    if family.lineCount == 0, !family.isEmptied {
      family.isEmptied = true
      emptied.append(family)
    }
    forgetFamilies()
  }

  /// Forgets families that have no lines and whose buckets are full again.
  ///
  /// Two families are examined for each line that is removed. So there are never more of them than lines that were
  /// removed, and no timer is needed.
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
    // The head of a serial queue was written again, and waits.
    if entry.state == .retryWait { waitForHead(line, entry) }
    enqueue(line)
  }

  /// Notes that a line may start a task. A line that waits for its turn within its queue is called when it comes.
  mutating func enqueue(_ line: TaskLine) {
    if line.isQueued || line.waitsForFamily { return }
    line.isQueued = true
    ring.append(line.id)
  }

  /// Takes the tasks of a line into account again that waited for a handler.
  mutating func lookAgain(_ line: TaskLine) {
    line.lookAgain()
    enqueue(line)
  }

  /// Lets a line continue its turn.
  mutating func enqueueFirst(_ line: TaskLine) {
    if line.isQueued { return }
    line.isQueued = true
    ring.prepend(line.id)
  }

  /// Notes that tasks of a line were read. If that was in its turn, it continues.
  mutating func enqueueRead(_ line: TaskLine) {
    if line.isReadInTurn { enqueueFirst(line) } else { enqueue(line) }
    line.isReadInTurn = false
  }

  /// Takes the next line out of the ring.
  mutating func nextLine() -> TaskLine? {
    while let id = ring.popFirst() {
      guard let line = lines[id], line.isQueued else { continue }
      line.isQueued = false
      return line
    }
    return nil
  }

  /// Lets the lines of a queue that have waited longest begin tasks, as many as the queue allows.
  mutating func callNext(of family: QueueFamily) {
    if family.isPaused { return }
    while let id = family.nextWaiting() {
      guard let line = lines[id], line.waitsForFamily else { continue }
      family.call(line)
      enqueue(line)
    }
  }

  /// Returns the host if there is work that no caller takes. The caller must wake it.
  mutating func wakingHost() -> TaskDispatcher.Host? {
    guard let host, isDiscovered, !isPumping else { return nil }
    guard
      !settlements.isEmpty || !pending.isEmpty || !requests.isEmpty || !strayClaims.isEmpty || needsTimers
        || (!ring.isEmpty && busyCount < host.workers && !isStopping && !areAllHeld && !isDiskFull)
    else { return nil }
    isPumping = true
    return host
  }

  /// Whether the next timers of tasks are to be read from disk.
  var needsTimers: Bool { timers.taskCount == 0 && timers.end != nil && !isLoadingTimers && !isStopping }

  /// Returns the host if no caller takes work, whether or not there is any. The caller must wake it.
  mutating func beginPumping() -> TaskDispatcher.Host? {
    guard let host, isDiscovered, !isPumping else { return nil }
    isPumping = true
    return host
  }
}
