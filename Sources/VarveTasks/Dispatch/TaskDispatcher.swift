internal import FutexLocks
internal import Synchronization
internal import Varve

/// The tasks that run next, in memory: subqueues of queues, timers, and running attempts, as of the last acknowledged
/// commit.
///
/// The effects of commits of transactions arrive by `acknowledge`, those of the scheduler's work by `takeWork` and the
/// methods that follow it. One lock protects the whole state, and is held only for a short time.
@_spi(Extensions) public final class TaskDispatcher: Sendable {
  struct State: ~Copyable {
    /// The host that runs tasks, or `nil` if none does.
    var host: Host?

    // What belongs to a start. A detach replaces each of these.
    var subqueues = Subqueues()
    var timers = Timers()
    var running = RunningTasks()
    var holds = Holds()
    var parents = Parents()
    var loop = DispatchLoop()

    // What survives a detach.
    /// The queues by their names and numbers. They are those of the database, which also enqueues tasks while no host
    /// runs any.
    var names: [QueueName: TaskNames.Queue] = [:]
    var texts: [UInt32: QueueName] = [:]
    /// The next id of a task. An id is assigned once in the life of a database.
    var nextID: UInt64 = 1
    /// The id up to which ids may be assigned without a record on disk. The record outlives the start.
    var lastID: UInt64 = 0
    /// The tasks that transactions are changing, each with the number of these transactions, which may be open across
    /// several starts.
    var held: [TaskID: Int] = [:]
    /// The last acknowledged commit with tasks. Readers may see it slightly later, also those of the next start.
    var acknowledged = CommitVersion.zero
    /// The number of the last start that has recovered the tasks of all earlier ones, or `nil` if there was none since
    /// the database was opened. All claims on disk are of this start, also after it has ended: a close notes that.
    var recoveredStart: UInt32?
    /// Whether no task is taken, because the database is a copy. It is one until a transaction releases its tasks.
    var areAllHeld = false
    /// Whether no task begins or becomes ready, because the disk is full: its handler could write nothing. It is the
    /// state of the disk at the last turn of any start, so that a disk that stays full is reported once.
    var isDiskFull = false
    /// Whether no more tasks are taken. A stop sets it, and it stays set until the next host is attached, so that
    /// nothing begins in between.
    var isStopping = false
    /// Whether a worker waits briefly for its next attempt. The worker itself ends its wait, which may be after a
    /// detach.
    var isWorkerWaiting = false
    /// The largest numbers of tasks and rows that a turn of the loop has handled, in any start.
    var largestTurn = (tasks: 0, rows: 0)
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
    var recorder = StatisticsRecorder()
  }

  let state: FutexLock<State>
  let openParents = OpenParents()
  let blockedChildren = BlockedChildren()
  let ends = TaskEnds()
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
  func attach(_ host: Host, _ handlers: HandlerRegistry) -> Bool {
    state.withLock { state in
      guard state.host == nil else { return false }
      state.host = host
      state.running.handlers = handlers
      state.isStopping = false
      state.subqueues.isDiscovered = false
      state.timers.beginClocks(host.clock)
      return true
    }
  }

  /// Whether no task is taken, because the database is a copy.
  var areAllHeld: Bool { state.withLock { $0.areAllHeld } }

  /// Whether no task begins, because the disk was full at the last turn of the loop.
  var isDiskFull: Bool { state.withLock { $0.isDiskFull } }

  /// Adds the subqueues that have tasks on disk, and lets the host take work. All other subqueues have no tasks on
  /// disk.
  func discover(_ subqueues: [SubqueueID]) {
    let host = state.withLock { state in
      for id in subqueues {
        guard let subqueue = state.subqueue(id, isOnDisk: true) else { continue }
        state.subqueues.enqueue(subqueue)
      }
      state.subqueues.isDiscovered = true
      state.recoveredStart = state.host?.start
      return state.beginPumping()
    }
    host?.wake()
  }

  /// Adds the tasks that others depend on, as read from disk, and those whose children are left.
  ///
  /// `areAll` says whether `parents` has all tasks that others depend on.
  func loadParents(_ parents: [TaskID], areAll: Bool, pending: [TaskID]) {
    state.withLock { $0.parents.load(parents, isAll: areAll, upTo: $0.nextID, pending: pending) }
  }

  /// Sets the tokens of queues, as read from disk, also of queues that commits have brought into memory since the start
  /// began.
  func loadTokens(_ tokens: [UInt32: TokenBucket]) {
    state.withLock { state in
      guard let clock = state.host?.clock else { return }
      let offset = clock.continuousNow.milliseconds - WallTime.milliseconds(clock.wallNow)
      state.subqueues.loadTokens(tokens.mapValues { $0.shifted(by: offset) })
    }
  }

  /// Detaches the host, and fails the requests of callers.
  func detach() {
    let requests = state.withLock { $0.endStart() }
    openParents.removeAll()
    blockedChildren.removeAll()
    let error = DatabaseError(.closed, "the scheduler has stopped")
    for request in requests { request.fail(error) }
    ends.fail(error)
  }

  /// Fails the callers that wait for the end of a task, if no scheduler runs.
  func noteStopWithoutStart() {
    if state.withLock({ $0.host == nil }) { ends.fail(DatabaseError(.closed, "the scheduler was stopped")) }
  }

  /// Fails the callers that wait for the end of a task, because no task ends any more.
  func noteClosed() { ends.fail(DatabaseError(.closed, "the database was closed before the task had ended")) }

  /// Notes that work may be due. Returns the host if it must be woken.
  func timerFired() -> Host? { state.withLock { $0.beginPumping() } }

  /// Adds a handler to those of the host. The tasks in its queues that waited for it are taken into account again.
  func use(_ handler: RegisteredHandler) {
    let host = state.withLock { state in
      // The handler may be among those that a start has set. If it is new, the subqueues that have passed tasks of its
      // kind, which are noted, look again.
      if state.running.handlers.addIfNew(handler), state.running.unhandled.remove(handler.kind) != nil {
        state.subqueues.lookAgain()
      }
      return state.wakingHost()
    }
    host?.wake()
  }

  /// Sets the handlers of the host. Tasks that waited for a handler are taken into account again.
  ///
  /// `handlers` is called with the lock held, so that of several calls at once the last one sets the newest handlers.
  func use(_ handlers: () -> HandlerRegistry) {
    let host = state.withLock { state in
      state.running.handlers = handlers()
      state.running.unhandled = []
      state.subqueues.lookAgain()
      return state.wakingHost()
    }
    host?.wake()
  }

  /// The kinds of tasks that were due to run and have no handler.
  var unhandledKinds: [String] { state.withLock { $0.running.unhandled.sorted() } }

  /// The serial queues whose head is dead or parked, with its id and state.
  var blockedHeads: [(queue: QueueName, id: TaskID, state: TaskState)] {
    state.withLock { state in
      state.subqueues.values.compactMap { subqueue in
        guard subqueue.rules.isSerial, let first = subqueue.first, first.state == .dead || first.state == .parked else {
          return nil
        }
        return (subqueue.name, first.id, first.state)
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
      for (subqueueID, id, key) in delta.removed {
        state.loop.noteRemoved(key)
        state.remove(id, key, from: subqueueID)
      }
      guard let host = state.host else { return (Host?.none, false, Host?.none) }
      for id in delta.parents { state.parents.insert(id) }
      state.parents.end(delta.pending)
      for (subqueue, entry) in delta.entries { state.insert(entry, subqueue) }
      for (subqueueID, key) in delta.more {
        guard let subqueue = state.subqueue(subqueueID) else { continue }
        subqueue.noteMore(from: key)
        state.subqueues.enqueue(subqueue)
      }
      let before = state.timers.first?.deadline
      for (parent, child) in delta.waits { state.note(child, waitingFor: parent, host) }
      for key in delta.removedTimers { state.timers.removeTask(key) }
      for timer in delta.timers { state.timers.insert(timer, host.clock) }
      if let key = delta.moreTimers { state.timers.noteMore(from: key) }
      var missed: [TaskID] = []
      for id in delta.cancelled {
        guard let run = state.running[id] else {
          missed.append(id)
          continue
        }
        if let task = state.cancel(run) { cancelled.append(task) }
      }
      for begin in stride(from: 0, to: missed.count, by: TurnWork.batchMaximum) {
        let ids = Array(missed[begin...].prefix(TurnWork.batchMaximum))
        state.loop.requests.append(ChangeRequest(.cancelMissed, ids))
      }
      return (state.wakingHost(), state.timers.first?.deadline != before, released)
    }
    for task in cancelled { task.cancel() }
    ends.notify(delta.ended)
    host?.wake()
    released?.released()
    if timersChanged { state.withLock { $0.host }?.timersChanged() }
  }
}

extension TaskDispatcher.State {
  /// Detaches the host, and forgets what belongs to its start. Returns the requests of callers, which must be failed.
  mutating func endStart() -> [ChangeRequest] {
    let requests = loop.requests
    host = nil
    subqueues = Subqueues()
    timers = Timers()
    running = RunningTasks()
    holds = Holds()
    parents = Parents()
    loop = DispatchLoop()
    return requests
  }

  /// Notes new or changed queues.
  mutating func note(_ queues: [(name: QueueName, queue: TaskNames.Queue)]) {
    for (name, queue) in queues {
      names[name] = queue
      texts[queue.number] = name
      subqueues.setPaused(queue.isPaused, queue.number)
    }
  }

  /// Returns a subqueue, which is made if it does not exist. Returns `nil` if no host runs tasks, or if the queue is
  /// not known.
  mutating func subqueue(_ id: SubqueueID, isOnDisk: Bool? = nil) -> Subqueue? {
    if let subqueue = subqueues[id] { return subqueue }
    guard let queueState = queueState(id.queue) else { return nil }
    let subqueue = subqueues.add(id, queueState, isOnDisk: isOnDisk)
    beginAgeing(queueState)
    return subqueue
  }

  private mutating func queueState(_ number: UInt32) -> QueueState? {
    if let queueState = subqueues.queues[number] { return queueState }
    guard let host, let name = texts[number] else { return nil }
    return subqueues.addQueue(number, name, host.rules(name), isPaused: names[name]?.isPaused ?? false)
  }

  private mutating func beginAgeing(_ queueState: QueueState) {
    guard let host, let wait = queueState.rules.ageingTime, subqueues.ageing.insert(queueState.number).inserted else {
      return
    }
    timers.insert(
      Timers.Entry(
        deadline: host.clock.continuousNow + wait, wall: nil, suspending: nil, action: .ageing(queueState.number)))
  }

  /// Puts a task into its subqueue.
  mutating func insert(_ entry: QueuedTask, _ id: SubqueueID) {
    guard let subqueue = subqueue(id) else { return }
    subqueue.insert(entry)
    // The head of a serial queue was written again, and waits.
    if entry.state == .retryWait { waitForHead(subqueue, entry) }
    subqueues.enqueue(subqueue)
  }

  /// Forgets a task whose row was removed.
  mutating func remove(_ id: TaskID, _ key: [UInt8], from subqueue: SubqueueID) {
    holds.dropOvertaken(id, key)
    running.ahead.drop(id, key)
    subqueues.removeTask(id, key, from: subqueue)
  }

  /// Returns the host if there is work that no caller takes. The caller must wake it.
  mutating func wakingHost() -> TaskDispatcher.Host? {
    guard let host, subqueues.isDiscovered, !loop.isPumping else { return nil }
    guard
      !running.settlements.isEmpty || !parents.pending.isEmpty || !loop.requests.isEmpty
        || !running.ahead.strays.isEmpty
        || needsTimers
        || (!subqueues.turns.isEmpty && running.busyCount < host.workers && !isStopping && !areAllHeld && !isDiskFull)
    else { return nil }
    loop.isPumping = true
    return host
  }

  /// Whether the next timers of tasks must be read from disk.
  var needsTimers: Bool { timers.needsRows && !isStopping }

  /// Returns the host if no caller takes work, whether or not there is any. The caller must wake it.
  mutating func beginPumping() -> TaskDispatcher.Host? {
    guard let host, subqueues.isDiscovered, !loop.isPumping else { return nil }
    loop.isPumping = true
    return host
  }
}
