internal import Foundation
internal import FutexLocks
internal import Synchronization

/// The work that a scheduler does next, in one commit beside the writer.
struct TaskWork {
  var settlements: [TaskSettlement] = []
  /// The tasks whose time has come, with the keys of their rows.
  var due: [(id: TaskID, key: [UInt8])] = []
  /// The attempts whose time limit or lease has expired.
  var timeouts: [TaskSettlement] = []
  /// The attempts that have run for long since a task was enqueued that depends on theirs.
  var awaited: [TaskRun] = []
  /// The attempts that have ended, and whose handlers are abandoned: they have lost their workers without having
  /// returned.
  var abandoned: [TaskRun] = []
  /// The attempts that begin.
  var claims: [TaskRun] = []
  /// The lines whose tasks are to be read from disk, each with the key to start from.
  var refills: [(line: LineID, from: [UInt8])] = []
  /// The first tasks of lines whose values are to be read.
  var loads: [(line: LineID, key: [UInt8])] = []
  /// The tasks that have ended, and whose children are to receive this.
  var pending: [TaskID] = []
  /// The tokens of queues that are to be written.
  var tokens: [(queue: UInt32, bucket: TokenBucket)] = []
  /// The schedules whose next time may have come.
  var schedules: [String] = []
  /// The changes that callers have requested.
  var requests: [TaskRequest] = []
  /// The queues whose waiting tasks move up.
  var ageing: [UInt32] = []
  /// The key from which on rows of timers are to be read, or `nil` if none are.
  var timersFrom: [UInt8]?
  /// The errors for rows of lines that can't be read.
  var damaged: [DamagedTask] = []
  /// The first tasks of kinds that have no handler, with the names of their queues.
  var unhandled: [(record: TaskRecord, queue: QueueName)] = []

  var isEmpty: Bool {
    settlements.isEmpty && due.isEmpty && timeouts.isEmpty && claims.isEmpty && refills.isEmpty && loads.isEmpty
      && pending.isEmpty && abandoned.isEmpty && awaited.isEmpty
      && schedules.isEmpty && ageing.isEmpty && requests.isEmpty
      && timersFrom == nil && damaged.isEmpty && unhandled.isEmpty
  }

  /// The maximum number of tasks that are settled in one commit, and of those that become ready in it.
  static let batchMaximum = 512
}

extension TaskDispatcher {
  /// Returns the work to be done now, or `nil` if nothing is to be done. New work then wakes the host.
  ///
  /// The work consists, in this order, of what has ended, what is due, and what begins. `start` is the number of the
  /// start that asks: if another host runs tasks by now, the result is `nil`.
  func takeWork(_ start: UInt32) -> TaskWork? {
    state.withLock { state in
      guard let host = state.host, host.start == start else { return nil }
      var work = TaskWork()
      state.changing = []
      let count = min(state.settlements.count, TaskWork.batchMaximum)
      work.settlements = Array(state.settlements.prefix(count))
      state.settlements.removeFirst(count)
      for settlement in work.settlements { state.endEarly(settlement) }
      state.takeDue(&work, host)
      let pendingCount = min(state.pending.count, TaskWork.batchMaximum)
      work.pending = Array(state.pending.prefix(pendingCount))
      state.pending.removeFirst(pendingCount)
      // Requests are handled one after the other, so that each one sees the changes of those before it.
      if !state.requests.isEmpty { work.requests = [state.requests.removeFirst()] }
      if !state.isStopping, !state.areAllHeld {
        state.takeClaims(&work, host)
        state.takeTokens(&work, host)
      }
      if work.isEmpty {
        state.isPumping = false
        state.isCommitting = false
        state.removedMeanwhile = []
        return nil
      }
      state.removedMeanwhile = []
      state.isCommitting = true
      return work
    }
  }

  /// Queues attempts whose claims are committed for their workers. Returns those that have a worker, which the caller
  /// begins.
  func start(_ claims: [TaskRun], of start: UInt32) -> [TaskRun] {
    state.withLock { state in
      guard state.host?.start == start else { return [] }
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

  /// Ends an attempt as its handler says, which has taken some nanoseconds.
  ///
  /// Returns the host if it is to be woken, the attempt that the worker runs next, and whether the end was refused
  /// because the attempt was ended otherwise.
  func finish(
    _ run: TaskRun, _ end: TaskEnd, after nanoseconds: Double
  ) -> (host: Host?, next: TaskRun?, isRefused: Bool) {
    defer { endCount.add(1, ordering: .releasing) }
    return state.withLock { state in
      // The handler belongs to an earlier start, and was abandoned.
      guard state.isOfHost(run) else { return (nil, nil, true) }
      state.averageRun += (max(1, nanoseconds) - state.averageRun) * (state.averageRun == 0 ? 1 : 0.1)
      let isFirst = run.settle()
      if isFirst { state.settlements.append(TaskSettlement(run: run, end: end)) }
      state.release(run)
      // Callers wait for the last handler, also if nothing is left to be done.
      let host = state.wakingHost() ?? (state.areAllStopCallers ? state.beginPumping() : nil)
      return (host, state.nextClaimed(), !isFirst)
    }
  }

  /// Waits briefly for the end of a handler, if handlers are short and none has ended since `count`.
  ///
  /// The thread that starts handlers then receives their ends without going to sleep. Going to sleep and being woken
  /// takes longer than such a handler.
  func waitForEnd(after count: UInt64) {
    guard state.withLock({ $0.averageRun > 0 && $0.averageRun < Self.shortRun }) else { return }
    let end = ContinuousClock.now + Self.look
    while endCount.load(ordering: .relaxed) == count, ContinuousClock.now < end { sched_yield() }
  }

  /// Waits briefly for another attempt, if handlers are short and no other worker waits. Returns `nil` if none has
  /// come.
  func waitForClaim() -> TaskRun? {
    let count = handCount.load(ordering: .acquiring)
    let isWaiting = state.withLock { state in
      guard state.averageRun < Self.shortRun, !state.isWorkerWaiting, state.isPumping else { return false }
      state.isWorkerWaiting = true
      return true
    }
    if !isWaiting { return nil }
    let end = ContinuousClock.now + Self.look
    while handCount.load(ordering: .relaxed) == count, ContinuousClock.now < end { sched_yield() }
    return state.withLock { state in
      state.isWorkerWaiting = false
      return state.handedOver.take()
    }
  }

  /// The duration in nanoseconds below which a handler is short.
  private static let shortRun = 1e5
  private static let look = Duration.microseconds(150)

  /// Puts a task into its line.
  func insert(_ entry: LineEntry, _ line: LineID) {
    let host = state.withLock { state in
      state.insert(entry, line)
      return state.wakingHost()
    }
    host?.wake()
  }

  /// Sets the timer of a task that an attempt of a start has left. If another host runs tasks by now, its start reads
  /// the row.
  func insert(_ timer: TaskDelta.Timer, of start: UInt32) {
    state.withLock { state in
      if let host = state.host, host.start == start { state.insert(timer, host) }
    }
  }

  func insert(_ timer: TaskTimers.Entry) {
    state.withLock { state in
      state.timers.insert(timer)
      state.dropEndedAttempts()
    }
  }

  /// Takes back work that could not be written, so that it is done again. Returns false if another host runs tasks by
  /// now, or none.
  func requeue(_ work: TaskWork, of start: UInt32) -> Bool {
    state.withLock { state in
      guard let host = state.host, host.start == start else { return false }
      let now = host.clock.continuousNow
      state.pending = work.pending + state.pending
      state.requests = work.requests + state.requests
      state.isCommitting = false
      state.changing = []
      let actions =
        work.due.map { TaskTimers.Action.task($0.id, key: $0.key) } + work.schedules.map { .schedule($0) }
        + work.ageing.map { .ageing($0) }
      for action in actions {
        state.timers.insert(TaskTimers.Entry(deadline: now, wall: nil, suspending: nil, action: action))
      }
      // Their workers stay released. They are abandoned again so that this is stored as an event.
      for run in work.abandoned {
        state.abandonable[run.key] = run
        state.timers.insert(
          TaskTimers.Entry(
            deadline: now, wall: nil, suspending: nil, action: .abandon(run.id, epoch: run.epoch)))
      }
      return true
    }
  }

  /// Returns whether another host than that of a start runs tasks by now.
  func isReplaced(_ start: UInt32) -> Bool { state.withLock { $0.host.map { $0.start != start } ?? false } }

  /// Applies the effects of a commit beside the writer to lines and timers.
  ///
  /// If another host runs tasks by now, its start has read them from disk.
  func apply(_ changes: AsideDelta, of start: UInt32) {
    var cancelled: [Task<Void, Never>] = []
    let (host, timersChanged) = state.withLock { state -> (Host?, Bool) in
      state.note(changes.names)
      cancelled = changes.cancelling.compactMap { state.cancel($0) }
      guard let host = state.host, host.start == start else { return (nil, false) }
      state.isCommitting = false
      state.changing = []
      if changes.isEmpty { return (nil, false) }
      for id in changes.parents { state.parents.insert(id) }
      state.pending += changes.pending
      // If no transaction is changing a task any more, the next commit continues with these.
      if state.held.isEmpty { state.pending += changes.heldPending } else { state.heldPending += changes.heldPending }
      for (lineID, id, key) in changes.removed {
        guard let line = state.lines[lineID] else { continue }
        line.remove(id, key: key)
        // The removed task may have been the head that the queue waited for.
        state.enqueue(line)
      }
      // A transaction may have changed the task after this commit, and may have been acknowledged before this call.
      for (line, entry) in changes.entries where !state.removedMeanwhile.contains(entry.key) {
        state.insert(entry, line)
      }
      for key in changes.removedTimers { state.timers.removeTask(key) }
      for timer in changes.timers { state.insert(timer, host) }
      return (state.wakingHost(), !changes.timers.isEmpty || !changes.cancelling.isEmpty)
    }
    for task in cancelled { task.cancel() }
    host?.wake()
    if timersChanged { state.withLock { $0.host }?.timersChanged() }
  }

  /// Settles attempts whose handlers have not returned. Returns the host if it is to be woken.
  func settle(_ settlements: [TaskSettlement]) -> Host? {
    state.withLock { state in
      state.settlements += settlements
      return state.wakingHost()
    }
  }

  /// Adds a request. Returns the host if it is to be woken.
  ///
  /// The outer optional is `nil` if no host runs tasks, or if it is stopping.
  func add(_ request: TaskRequest) -> Host?? {
    state.withLock { state -> Host?? in
      guard state.host != nil, !state.isStopping else { return .none }
      state.requests.append(request)
      return .some(state.wakingHost())
    }
  }

  /// Returns whether the commit of the scheduler that is being made may change a task, because no transaction is
  /// changing it. A transaction that begins to hold the task from now on finds it among those that are changing.
  func mayChange(_ id: TaskID) -> Bool {
    state.withLock { state in
      if state.held[id] != nil { return false }
      state.changing.insert(id)
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
  /// `entry` is the task if it is in line again. `sawCancel` says whether the commit has taken account of a request to
  /// cancel the attempt.
  func didSettle(
    _ run: TaskRun, _ entry: LineEntry?, _ timers: [TaskTimers.Entry], isDone: Bool = false, sawCancel: Bool = false
  ) {
    let host = state.withLock { state -> Host? in
      guard state.isOfHost(run) else { return nil }
      state.end(run, entry)
      if !sawCancel, run.state.withLock({ $0.isCancelling }) {
        state.requests.append(TaskRequest(.cancelMissed, [run.id]))
      }
      // A dead task may be revived while children wait for it, so only a task that is done is removed.
      if isDone { state.parents.remove(run.id) }
      for timer in timers { state.timers.insert(timer) }
      // A stop waits for the last attempt, also if its handler has not returned.
      return state.wakingHost() ?? (state.hasOtherRuns ? nil : state.beginPumping())
    }
    host?.wake()
  }

  /// Ends an attempt in memory alone, because its end can't be written. Its task does not run until the next start.
  func leave(_ settlement: TaskSettlement, _ timers: [TaskTimers.Entry]) {
    let run = settlement.run
    let isDone = if case .outcome(.done) = settlement.end { true } else { false }
    let host = state.withLock { state -> Host? in
      guard state.isOfHost(run) else { return nil }
      state.left[run.id] = isDone
      var entry: LineEntry?
      if run.rules.isSerial, !isDone {
        // The head is reported as one that blocks its queue.
        entry = LineEntry(run.stored, run.stored.bytes)
        entry?.state = .parked
      }
      state.end(run, entry)
      for timer in timers { state.timers.insert(timer) }
      return state.wakingHost() ?? (state.hasOtherRuns ? nil : state.beginPumping())
    }
    host?.wake()
  }

  /// Lets a task not run until the next start, because its last attempt could not be recovered.
  func leave(_ id: TaskID) { state.withLock { $0.left[id] = false } }

  /// Notes that a part of the work that was taken is about to be committed.
  func beginCommit(_ start: UInt32) {
    state.withLock { state in
      guard state.isOfHost(start) else { return }
      state.isCommitting = true
      state.removedMeanwhile = []
    }
  }

  /// Puts the tasks of claims that were not committed back into their lines, and takes back the settlements.
  ///
  /// With `isLeaving`, the tasks do not run until the next start.
  func undo(_ claims: [TaskRun], _ settlements: [TaskSettlement], isLeaving: Bool = false) {
    state.withLock { state in
      for run in claims where state.isOfHost(run) {
        // A transaction may have cancelled the attempt, which will not end.
        if run.state.withLock({ $0.isCancelling }) { state.requests.append(TaskRequest(.cancelMissed, [run.id])) }
        state.running[run.id] = nil
        state.busyCount -= 1
        if run.stored.progress.crashes > 0 { state.hasSuspect = false }
        if state.busyCount == 0 { state.returnPostponed() }
        guard let line = state.lines[run.record.position.line] else { continue }
        line.countRun(-1)
        line.family.giveBack(line.id)
        var entry = LineEntry(run.stored, run.stored.bytes)
        entry.state = .ready
        if isLeaving { state.left[run.id] = false }
        line.insert(entry)
        state.enqueue(line)
      }
      let settlements = settlements.filter { state.isOfHost($0.run) }
      state.settlements.insert(contentsOf: settlements, at: 0)
      for settlement in settlements { state.undoEnd(settlement) }
    }
  }

  /// Adds entries that were read from disk to a line. `entries` is `nil` if reading has failed.
  ///
  /// Like the methods that follow, it has no effect if another host than that of the start runs tasks by now: the read
  /// was begun for lines and timers that do not exist any more.
  ///
  /// `next` is the first key that was not read, or `nil` if there are no more. Returns the number of entries that are
  /// not in line.
  @discardableResult
  func refill(_ id: LineID, from: [UInt8], _ entries: [LineEntry]?, next: [UInt8]?, of start: UInt32) -> Int {
    state.withLock { state in
      guard state.isOfHost(start), let line = state.lines[id] else { return entries?.count ?? 0 }
      var skippedCount = 0
      if let entries {
        let running = state.running
        skippedCount = line.endRefill(entries, from: from, next: next) { running[$0] != nil }
      } else {
        line.failRefill()
      }
      state.enqueue(line)
      if let first = line.first { state.waitForHead(line, first) }
      return skippedCount
    }
  }

  /// Takes lines into account again whose first tasks could not be read.
  func failLoads(_ lines: [LineID], of start: UInt32) {
    state.withLock { state in
      guard state.isOfHost(start) else { return }
      for id in lines { if let line = state.lines[id] { state.enqueue(line) } }
    }
  }

  func loadFirst(_ id: LineID, _ key: [UInt8], _ value: [UInt8]?, of start: UInt32) {
    state.withLock { state in
      guard state.isOfHost(start), let line = state.lines[id] else { return }
      line.loadFirst(key, value)
      state.enqueue(line)
    }
  }

  /// Adds timers that were read from disk. `timers` is `nil` if reading has failed.
  ///
  /// `next` is the first key that was not read, or `nil` if there are no more.
  func loadTimers(_ timers: [TaskDelta.Timer]?, next: [UInt8]?, of start: UInt32) {
    state.withLock { state in
      guard let host = state.host, host.start == start, state.isLoadingTimers else { return }
      state.isLoadingTimers = false
      let (missed, more) = (state.missedTimers, state.moreTimersMeanwhile)
      (state.missedTimers, state.moreTimersMeanwhile) = ([], nil)
      guard let timers else { return }
      state.timers.endLoading(at: next)
      for timer in timers { state.add(timer, host.clock) }
      let known = Set(timers.map(\.key))
      for timer in missed where !known.contains(timer.key) { state.insert(timer, host) }
      if let more { state.noteMoreTimers(from: more) }
      state.timers.trim()
    }
  }

  /// Notes that the rows of timers are about to be read for the first time. Returns the key from which on to read them.
  func beginLoadingTimers() -> [UInt8]? {
    state.withLock { state in
      state.isLoadingTimers = true
      return state.timers.end
    }
  }

  /// The time on the continuous clock at which the host is to look for due work, or `nil` if no timer is set.
  var nextDeadline: Duration? {
    state.withLock { state in
      state.dropEndedAttempts()
      guard let host = state.host, let first = state.timers.first else { return nil }
      // The wall clock may be set, so it is checked at regular intervals. There may be dates on disk, too.
      if state.timers.wallCount > 0 || state.timers.end != nil {
        let minutes = host.clock.continuousNow.components.seconds / Self.wallLook.components.seconds + 1
        return min(first.deadline, Self.wallLook * Int(minutes))
      }
      return first.deadline
    }
  }

  /// What the wall clock showed before it was set.
  var wallSpans: WallSpans { state.withLock { $0.wallSpans } }

  /// The interval at which the wall clock is checked while tasks wait for dates.
  static let wallLook = Duration.seconds(60)
}

/// What a stop asks, and handlers that wait for one.
extension TaskDispatcher {
  /// Lets no more tasks begin. Returns the attempts that run, or those whose handlers do not wait for a stop.
  func stop(leavingCallers: Bool) -> [TaskRun] {
    state.withLock { state in
      state.isStopping = true
      return state.running.values.filter { !leavingCallers || !state.stopCallers.contains($0.key) }
    }
  }

  /// The number of attempts that have or wait for a worker, and whether there is work to do now.
  var workload: (running: Int, hasWork: Bool) { workload(leavingCallers: false) }

  /// Returns the number of attempts that have or wait for a worker, and whether there is work to do now, with or without
  /// the attempts whose handlers wait for a stop.
  func workload(leavingCallers: Bool) -> (running: Int, hasWork: Bool) {
    state.withLock { state in
      let runs = leavingCallers ? state.hasOtherRuns : !state.running.isEmpty
      return (
        state.busyCount - (leavingCallers ? state.stopCallers.count : 0),
        state.isPumping || !state.settlements.isEmpty || runs || !state.requests.isEmpty
      )
    }
  }

  // MARK: - Handlers that stop the scheduler

  /// Returns whether the handler of an attempt runs, and belongs to this dispatcher.
  func isOfHandler(_ run: TaskRun) -> Bool {
    state.withLock { $0.running[run.id] === run || $0.abandonable[run.key] === run }
  }

  /// Notes that the handler of an attempt waits for a stop.
  func noteStopCaller(_ run: TaskRun) {
    state.withLock { state in
      if state.isOfHost(run), !run.state.withLock({ $0.isReleased }) { state.stopCallers.insert(run.key) }
    }
  }

  /// Whether a handler waits for a stop.
  var hasStopCallers: Bool { state.withLock { !$0.stopCallers.isEmpty } }

  /// Releases the workers of all handlers that do not wait for a stop.
  func abandonAll() {
    state.withLock { state in
      for run in state.abandonable.values where !state.stopCallers.contains(run.key) { state.release(run) }
    }
  }
}

extension TaskDispatcher.State {
  /// Whether an attempt runs whose handler does not wait for a stop.
  var hasOtherRuns: Bool {
    running.count > stopCallers.count || running.values.contains { !stopCallers.contains($0.key) }
  }

  /// Whether all handlers that run wait for a stop. They may be none.
  var areAllStopCallers: Bool { busyCount == stopCallers.count }
}
