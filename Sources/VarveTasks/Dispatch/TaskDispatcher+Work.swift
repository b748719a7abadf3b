internal import Foundation
internal import FutexLocks
internal import Synchronization
internal import Varve

/// The work that a scheduler does next, in one independent commit: a turn of its loop.
struct TurnWork {
  var settlements: [Settlement] = []
  /// The tasks whose time has come, with the keys of their rows.
  var due: [(id: TaskID, key: [UInt8])] = []
  /// The attempts whose time limit or lease has expired.
  var timeouts: [Settlement] = []
  /// The attempts that have run for long since a task was enqueued that depends on theirs.
  var awaited: [TaskRun] = []
  /// The attempts that have ended, and whose handlers are abandoned: they have lost their workers without having
  /// returned.
  var abandoned: [TaskRun] = []
  /// The attempts that begin when the commit is made.
  var claims: [TaskRun] = []
  /// The attempts that begin at once, because their claims were made ahead.
  var starts: [TaskRun] = []
  /// The claims that are made ahead.
  var ahead: [TaskRun] = []
  /// The attempts that have begun by claims made ahead, which a row is to note.
  var begun: [TaskRun] = []
  /// Whether the work has nothing else, so that it may wait until these attempts end.
  var hasOnlyBegun = false
  /// The keys of claims that are deleted, because their tasks have changed.
  var strayClaims: [[UInt8]] = []
  /// The subqueues whose tasks must be read from disk, each with the key to start from.
  var refills: [(subqueue: SubqueueID, from: [UInt8])] = []
  /// The first tasks of subqueues whose values must be read.
  var loads: [(subqueue: SubqueueID, key: [UInt8])] = []
  /// The tasks that have ended, and whose children are to receive this.
  var pending: [TaskID] = []
  /// The tokens of queues that must be written.
  var tokens: [(queue: UInt32, bucket: TokenBucket)] = []
  /// The schedules whose next time may have come.
  var schedules: [String] = []
  /// Whether schedules that are not registered must be noted as inactive.
  var notesUnregistered = false
  /// The changes that callers have requested.
  var requests: [ChangeRequest] = []
  /// The queues whose waiting tasks move up.
  var ageing: [UInt32] = []
  /// The key from which on rows of timers must be read, or `nil` if none are.
  var timersFrom: [UInt8]?
  /// The errors for rows of subqueues that can't be read.
  var damaged: [DamagedTask] = []
  /// The first tasks of kinds that have no handler, with the names of their queues.
  var unhandled: [(record: TaskRecord, queue: QueueName)] = []

  /// The number of timers that have fired.
  var timerCount = 0
  /// Whether more subqueues must be looked at in the next turn.
  var isUnfinished = false
  /// The number of children that the commit may change.
  var childMaximum = TurnWork.batchMaximum
  /// The number of tasks that the commit may make for times of schedules.
  var slotMaximum = TurnWork.share
  /// The number of tasks that may move up.
  var agedMaximum = TurnWork.share

  var isEmpty: Bool {
    settlements.isEmpty && due.isEmpty && timeouts.isEmpty && claims.isEmpty && refills.isEmpty && loads.isEmpty
      && starts.isEmpty && ahead.isEmpty && begun.isEmpty && strayClaims.isEmpty && !isUnfinished && timerCount == 0
      && pending.isEmpty && abandoned.isEmpty && awaited.isEmpty
      && schedules.isEmpty && ageing.isEmpty && requests.isEmpty
      && timersFrom == nil && damaged.isEmpty && unhandled.isEmpty
  }

  /// The maximum number of tasks that a turn of the loop handles, and of the rows that it reads, so that what arrives
  /// meanwhile waits for a short time only.
  static let batchMaximum = 512
  /// The part of it that is left to each kind of work, however much there is of another kind.
  static let share = 64

  /// The number of tasks that the work handles, besides children.
  var taskCount: Int {
    settlements.count + timerCount + pending.count + requests.reduce(0) { $0 + $1.ids.count } + claims.count
      + starts.count + ahead.count + begun.count + strayClaims.count
  }

  /// The number of tasks that may be added. A share is left to the times of schedules, and to tasks that move up.
  var remaining: Int {
    let shares = (schedules.isEmpty ? 0 : 1) + (ageing.isEmpty ? 0 : 1)
    return max(0, Self.batchMaximum - taskCount - shares * Self.share)
  }

  /// Divides what is left among the tasks that the commit finds.
  mutating func divideRest() {
    let (rest, kinds) = (remaining, 1 + (schedules.isEmpty ? 0 : 1) + (ageing.isEmpty ? 0 : 1))
    childMaximum = rest / kinds
    slotMaximum = Self.share + rest / kinds
    agedMaximum = Self.share + rest / kinds
  }
}

extension TaskDispatcher {
  /// Returns the work to do now, or `nil` if there is none. New work then wakes the host.
  ///
  /// The work consists, in this order, of what has ended, what is due, and what begins. `start` is the number of the
  /// start that asks: if another host runs tasks by now, the result is `nil`. On a full disk
  /// the work has no task that begins or becomes ready.
  func takeWork(_ start: UInt32, isDiskFull: Bool = false) -> TurnWork? {
    state.withLock { state in
      guard let host = state.host, host.start == start else { return nil }
      state.isDiskFull = isDiskFull
      var work = TurnWork()
      state.loop.beginTurn()
      let hasEnds = !state.running.settlements.isEmpty || !state.parents.pending.isEmpty
      state.loop.takeRequest(&work, hasEnds: hasEnds)
      state.takeEnds(&work, host)
      state.takeDue(&work, host)
      if !state.isStopping, !state.areAllHeld, !isDiskFull {
        state.takeClaims(&work, host)
        state.takeTokens(&work, host)
        state.takeAhead(&work, host)
      }
      if !isDiskFull { state.running.ahead.takeUnnoted(&work, turn: state.loop.turn) }
      work.divideRest()
      if work.isEmpty {
        state.loop.pause()
        return nil
      }
      state.loop.beginCommit()
      return work
    }
  }

  /// Hands attempts of a start to workers: the first one to a worker that waits, if one does. Returns the others, which
  /// the caller begins.
  func hand(_ runs: [TaskRun], of start: UInt32) -> [TaskRun] {
    if runs.isEmpty { return [] }
    return state.withLock { state in
      guard state.host?.start == start else { return [] }
      var runs = runs
      if state.isWorkerWaiting, state.running.handedOver == nil {
        state.running.handedOver = runs.removeFirst()
        handCount.add(1, ordering: .releasing)
      }
      return runs
    }
  }

  /// Notes that claims which were made ahead are written.
  func didWrite(ahead runs: [TaskRun], of start: UInt32) {
    if runs.isEmpty { return }
    state.withLock { state in
      guard state.host?.start == start else { return }
      state.running.ahead.didWrite(runs)
    }
  }

  /// Notes the numbers of tasks and rows that a turn of the loop has handled.
  func noteTurn(tasks: Int = 0, rows: Int = 0) {
    state.withLock { state in
      state.loop.turnRowCount += rows
      state.largestTurn = (max(state.largestTurn.tasks, tasks), max(state.largestTurn.rows, state.loop.turnRowCount))
    }
  }

  /// Takes back attempts of which no row notes yet that they have begun.
  func putBack(begun runs: [TaskRun]) {
    state.withLock { state in
      for run in runs where state.isOfHost(run) { state.running.ahead.putBack(begun: run, turn: state.loop.turn) }
    }
  }

  /// Ends an attempt as its handler says, which has taken some nanoseconds.
  ///
  /// Returns the host if it must be woken, the attempt that the worker runs next, and whether the end was refused
  /// because the attempt was ended otherwise.
  func finish(
    _ run: TaskRun, _ end: AttemptEnd, after nanoseconds: Double
  ) -> (host: Host?, next: TaskRun?, isRefused: Bool) {
    defer { endCount.add(1, ordering: .releasing) }
    return state.withLock { state in
      // The handler belongs to an earlier start, and was abandoned.
      guard state.isOfHost(run) else { return (nil, nil, true) }
      let isFirst = run.settle()
      if isFirst { state.running.settlements.append(Settlement(run: run, end: end)) }
      state.subqueues[run.record.position.subqueue]?.queue.note(nanoseconds, of: run.handler)
      state.release(run)
      // A close of the database waits for the loop, and not for workers.
      let next = worker.isStopping ? nil : state.beginAhead()
      // Callers wait for the last handler, also if nothing is left to be done.
      let host = state.wakingHost() ?? (state.running.areAllStopCallers ? state.beginPumping() : nil)
      return (host, next, !isFirst)
    }
  }

  /// Waits briefly for the end of a handler, if some attempts are short and none has ended since `count`. Returns
  /// whether one has ended.
  ///
  /// The thread that starts handlers then receives their ends without going to sleep. Going to sleep and being woken
  /// takes longer than such a handler.
  func waitForEnd(after count: UInt64, of runs: [TaskRun]) -> Bool {
    guard runs.contains(where: \.isShort) else { return false }
    let end = ContinuousClock.now + Self.look
    while endCount.load(ordering: .relaxed) == count, ContinuousClock.now < end { sched_yield() }
    return endCount.load(ordering: .acquiring) != count
  }

  /// Waits briefly for another attempt, if the worker's last one was short and no other worker waits. Returns `nil` if
  /// none has come.
  func waitForClaim(after nanoseconds: Double) -> TaskRun? {
    if nanoseconds >= Self.shortRun { return nil }
    let count = handCount.load(ordering: .acquiring)
    let isWaiting = state.withLock { state in
      guard !state.isWorkerWaiting, state.loop.isPumping else { return false }
      state.isWorkerWaiting = true
      return true
    }
    if !isWaiting { return nil }
    let end = ContinuousClock.now + Self.look
    while handCount.load(ordering: .relaxed) == count, ContinuousClock.now < end { sched_yield() }
    return state.withLock { state in
      state.isWorkerWaiting = false
      return state.running.handedOver.take()
    }
  }

  /// The duration in nanoseconds below which an attempt is short.
  static let shortRun = 1e5
  private static let look = Duration.microseconds(150)

  /// Puts a task into its subqueue.
  func insert(_ entry: QueuedTask, _ subqueue: SubqueueID) {
    let host = state.withLock { state in
      state.insert(entry, subqueue)
      return state.wakingHost()
    }
    host?.wake()
  }

  /// Sets the timer of a task that an attempt of a start has left. If another host runs tasks by now, its start reads
  /// the row.
  func insert(_ timer: TimedTask, of start: UInt32) {
    state.withLock { state in
      if let host = state.host, host.start == start { state.timers.insert(timer, host.clock) }
    }
  }

  func insert(_ timer: Timers.Entry) {
    state.withLock { state in
      state.timers.insert(timer)
      state.dropEndedAttempts()
    }
  }

  /// Takes back work that could not be written, so that it is done again. Returns false if another host runs tasks by
  /// now, or none.
  func requeue(_ work: TurnWork, of start: UInt32) -> Bool {
    state.withLock { state in
      guard let host = state.host, host.start == start else { return false }
      let now = host.clock.continuousNow
      state.parents.putBack(work.pending)
      state.loop.requests = work.requests + state.loop.requests
      state.running.ahead.putBack(strays: work.strayClaims)
      state.loop.endCommit()
      let actions =
        work.due.map { Timers.Action.task($0.id, key: $0.key) } + work.schedules.map { .schedule($0) }
        + work.ageing.map { .ageing($0) } + (work.notesUnregistered ? [.unregistered] : [])
      for action in actions {
        state.timers.insert(Timers.Entry(deadline: now, wall: nil, suspending: nil, action: action))
      }
      // Their workers stay released. They are abandoned again so that this is stored as an event.
      for run in work.abandoned {
        state.running.putBack(abandoned: run)
        state.timers.insert(
          Timers.Entry(
            deadline: now, wall: nil, suspending: nil, action: .abandon(run.id, epoch: run.epoch)))
      }
      return true
    }
  }

  /// Returns whether another host than that of a start runs tasks by now.
  func isReplaced(_ start: UInt32) -> Bool { state.withLock { $0.host.map { $0.start != start } ?? false } }

  /// Applies the effects of an independent commit to subqueues and timers.
  ///
  /// If another host runs tasks by now, its start has read them from disk.
  func apply(_ changes: SchedulerDelta, of start: UInt32) {
    var cancelled: [Task<Void, Never>] = []
    let (host, timersChanged) = state.withLock { state -> (Host?, Bool) in
      state.note(changes.names)
      cancelled = changes.cancelling.compactMap { state.cancel($0) }
      guard let host = state.host, host.start == start else { return (nil, false) }
      state.loop.endCommit()
      if changes.isEmpty { return (nil, false) }
      for id in changes.parents { state.parents.insert(id) }
      state.parents.end(changes.pending)
      // If no transaction is changing a task any more, the next commit continues with these.
      if state.held.isEmpty { state.parents.end(changes.heldPending) } else { state.parents.hold(changes.heldPending) }
      for (subqueue, id, key) in changes.removed { state.remove(id, key, from: subqueue) }
      // A transaction may have changed the task after this commit, and may have been acknowledged before this call.
      for (subqueue, entry) in changes.entries where !state.loop.removedMeanwhile.contains(entry.key) {
        state.insert(entry, subqueue)
      }
      for key in changes.removedTimers { state.timers.removeTask(key) }
      for timer in changes.timers { state.timers.insert(timer, host.clock) }
      return (state.wakingHost(), !changes.timers.isEmpty || !changes.cancelling.isEmpty)
    }
    ends.notify(changes.ended)
    for task in cancelled { task.cancel() }
    host?.wake()
    if timersChanged { state.withLock { $0.host }?.timersChanged() }
  }

  /// Settles attempts whose handlers have not returned. Returns the host if it must be woken.
  func settle(_ settlements: [Settlement]) -> Host? {
    state.withLock { state in
      state.running.settlements += settlements
      return state.wakingHost()
    }
  }

  /// Adds a request. Returns the host if it must be woken.
  ///
  /// The outer optional is `nil` if no host runs tasks, or if it is stopping.
  func add(_ request: ChangeRequest) -> Host?? {
    state.withLock { state -> Host?? in
      guard state.host != nil, !state.isStopping else { return .none }
      state.loop.requests.append(request)
      return .some(state.wakingHost())
    }
  }

  /// Returns whether the commit of the scheduler that is being made may change a task, because no transaction is
  /// changing it. A transaction that begins to hold the task from now on finds it among those that are changing.
  func mayChange(_ id: TaskID) -> Bool {
    state.withLock { state in
      if state.held[id] != nil { return false }
      state.loop.changing.insert(id)
      return true
    }
  }

  /// Returns those of some tasks that others may depend on.
  func withChildren(_ ids: some Sequence<TaskID>) -> Set<TaskID> {
    state.withLock { state in
      if state.parents.isEmpty { return [] }
      return Set(ids.filter { state.parents.mayHave($0) })
    }
  }

  /// Applies the committed end of an attempt.
  ///
  /// `entry` is the task if it is queued again. `sawCancel` says whether the commit has taken account of a request to
  /// cancel the attempt.
  func didSettle(
    _ run: TaskRun, _ entry: QueuedTask?, _ timers: [Timers.Entry], isDone: Bool = false, sawCancel: Bool = false
  ) {
    let host = state.withLock { state -> Host? in
      guard state.isOfHost(run) else { return nil }
      state.end(run, entry)
      if !sawCancel, run.state.withLock({ $0.isCancelling }) {
        state.loop.requests.append(ChangeRequest(.cancelMissed, [run.id]))
      }
      // A dead task may be revived while children wait for it, so only a task that is done is removed.
      if isDone { state.parents.remove(run.id) }
      for timer in timers { state.timers.insert(timer) }
      // A stop waits for the last attempt, also if its handler has not returned.
      return state.wakingHost() ?? (state.running.hasOthers ? nil : state.beginPumping())
    }
    host?.wake()
  }

  /// Ends an attempt in memory alone, because its end can't be written. Its task does not run until the next start.
  func leaveOut(_ settlement: Settlement, _ timers: [Timers.Entry]) {
    let run = settlement.run
    let isDone = if case .outcome(.done) = settlement.end { true } else { false }
    let host = state.withLock { state -> Host? in
      guard state.isOfHost(run) else { return nil }
      state.holds.leaveOut(run.id, isDone: isDone)
      var entry: QueuedTask?
      if run.rules.isSerial, !isDone {
        // The head is reported as one that blocks its queue.
        entry = QueuedTask(run.stored, run.stored.bytes)
        entry?.state = .parked
      }
      state.end(run, entry)
      for timer in timers { state.timers.insert(timer) }
      return state.wakingHost() ?? (state.running.hasOthers ? nil : state.beginPumping())
    }
    host?.wake()
  }

  /// Lets a task not run until the next start, because its last attempt could not be recovered.
  func leaveOut(_ id: TaskID) { state.withLock { $0.holds.leaveOut(id, isDone: false) } }

  /// Notes that a part of the work that was taken is about to be committed.
  func beginCommit(_ start: UInt32) {
    state.withLock { state in
      guard state.isOfHost(start) else { return }
      state.loop.beginCommit()
    }
  }

  /// Puts the tasks of claims that were not committed back into their subqueues, forgets the claims that were to be
  /// made ahead, and takes back the settlements.
  ///
  /// With `isLeaving`, the tasks do not run until the next start.
  func undo(_ claims: [TaskRun], ahead: [TaskRun], _ settlements: [Settlement], isLeaving: Bool = false) {
    state.withLock { state in
      for run in ahead where state.isOfHost(run) { state.running.ahead.forget(run) }
      for run in claims where state.isOfHost(run) {
        // A transaction may have cancelled the attempt, which will not end.
        if run.state.withLock({ $0.isCancelling }) {
          state.loop.requests.append(ChangeRequest(.cancelMissed, [run.id]))
        }
        state.running.undoBegin(run)
        state.noteFree(run)
        guard let subqueue = state.subqueues[run.record.position.subqueue] else { continue }
        state.subqueues.countEnd(subqueue)
        subqueue.queue.giveBack(subqueue.id)
        var entry = QueuedTask(run.stored, run.stored.bytes)
        entry.state = .ready
        if isLeaving { state.holds.leaveOut(run.id, isDone: false) }
        subqueue.insert(entry)
        state.subqueues.enqueue(subqueue)
      }
      let settlements = settlements.filter { state.isOfHost($0.run) }
      state.running.settlements.insert(contentsOf: settlements, at: 0)
      for settlement in settlements { state.undoEnd(settlement) }
    }
  }

  /// Adds entries that were read from disk to a subqueue. `entries` is `nil` if reading has failed.
  ///
  /// Like the methods that follow, it has no effect if another host than that of the start runs tasks by now: the read
  /// was begun for subqueues and timers that do not exist any more.
  ///
  /// `next` is the first key that was not read, or `nil` if there are no more. Returns the number of entries that are
  /// not queued.
  @discardableResult
  func refill(_ id: SubqueueID, from: [UInt8], _ entries: [QueuedTask]?, next: [UInt8]?, of start: UInt32) -> Int {
    state.withLock { state in
      guard state.isOfHost(start), let subqueue = state.subqueues[id] else { return entries?.count ?? 0 }
      var skippedCount = 0
      if let entries {
        let runs = state.running.runs
        skippedCount = subqueue.endRefill(entries, from: from, next: next) { runs[$0] != nil }
      } else {
        subqueue.failRefill()
      }
      state.subqueues.enqueueRead(subqueue)
      if let first = subqueue.first { state.waitForHead(subqueue, first) }
      return skippedCount
    }
  }

  /// Takes subqueues into account again whose first tasks could not be read.
  func failLoads(_ subqueues: [SubqueueID], of start: UInt32) {
    state.withLock { state in
      guard state.isOfHost(start) else { return }
      for id in subqueues { if let subqueue = state.subqueues[id] { state.subqueues.enqueueRead(subqueue) } }
    }
  }

  func loadFirst(_ id: SubqueueID, _ key: [UInt8], _ value: [UInt8]?, of start: UInt32) {
    state.withLock { state in
      guard state.isOfHost(start), let subqueue = state.subqueues[id] else { return }
      subqueue.loadFirst(key, value)
      state.subqueues.enqueueRead(subqueue)
    }
  }

  /// Adds timers that were read from disk. `timers` is `nil` if reading has failed.
  ///
  /// `next` is the first key that was not read, or `nil` if there are no more.
  func loadTimers(_ timers: [TimedTask]?, next: [UInt8]?, of start: UInt32) {
    state.withLock { state in
      guard let host = state.host, host.start == start else { return }
      state.timers.endLoading(timers, next: next, host.clock)
    }
  }

  /// Notes that the rows of timers are about to be read for the first time. Returns the key from which on to read them.
  func beginLoadingTimers() -> [UInt8]? {
    state.withLock { $0.timers.beginLoading() }
  }

  /// The time on the continuous clock at which the host is to look for due work, or `nil` if no timer is set.
  var nextDeadline: Duration? {
    state.withLock { state in
      state.dropEndedAttempts()
      guard let host = state.host else { return nil }
      if state.isDiskFull { return host.clock.continuousNow + TaskDispatcher.State.fullDiskLook }
      guard let first = state.timers.first else { return nil }
      // The wall clock may be set, so it is checked at regular intervals. There may be dates on disk, too.
      if state.timers.wallCount > 0 || state.timers.end != nil {
        let minutes = host.clock.continuousNow.components.seconds / Self.wallLook.components.seconds + 1
        return min(first.deadline, Self.wallLook * Int(minutes))
      }
      return first.deadline
    }
  }

  /// What the wall clock showed before it was set.
  var wallSpans: WallSpans { state.withLock { $0.timers.wallSpans } }

  /// The interval at which the wall clock is checked while tasks wait for dates.
  static let wallLook = Duration.seconds(60)
}

/// What a stop asks, and handlers that wait for one.
extension TaskDispatcher {
  /// Lets no more tasks begin. Returns the attempts that run, or those whose handlers do not wait for a stop.
  func stop(leavingCallers: Bool) -> [TaskRun] {
    state.withLock { state in
      state.isStopping = true
      state.running.ahead.dropAll()
      return state.running.runs.values.filter { !leavingCallers || !state.running.stopCallers.contains($0.key) }
    }
  }

  /// The number of attempts that have or wait for a worker, and whether there is work to do now.
  var workload: (running: Int, hasWork: Bool) { workload(leavingCallers: false) }

  /// Returns the number of attempts that have or wait for a worker, and whether there is work to do now, with or
  /// without the attempts whose handlers wait for a stop.
  func workload(leavingCallers: Bool) -> (running: Int, hasWork: Bool) {
    state.withLock { state in
      let runs = leavingCallers ? state.running.hasOthers : !state.running.runs.isEmpty
      return (
        state.running.busyCount - (leavingCallers ? state.running.stopCallers.count : 0),
        state.loop.isPumping || !state.running.settlements.isEmpty || runs || !state.loop.requests.isEmpty
          || !state.running.ahead.strays.isEmpty
      )
    }
  }

  // MARK: - Handlers that stop the scheduler

  /// Returns whether the handler of an attempt runs, and belongs to this dispatcher.
  func isOfHandler(_ run: TaskRun) -> Bool {
    state.withLock { $0.running[run.id] === run || $0.running.abandonable[run.key] === run }
  }

  /// Notes that the handler of an attempt waits for a stop.
  func noteStopCaller(_ run: TaskRun) {
    state.withLock { state in
      if state.isOfHost(run), !run.state.withLock({ $0.isReleased }) { state.running.noteStopCaller(run) }
    }
  }

  /// Whether a handler waits for a stop.
  var hasStopCallers: Bool { state.withLock { !$0.running.stopCallers.isEmpty } }

  /// Releases the workers of all handlers that do not wait for a stop.
  func abandonAll() {
    state.withLock { state in
      for run in state.running.abandonable.values where !state.running.stopCallers.contains(run.key) {
        state.release(run)
      }
    }
  }
}
