internal import Foundation
internal import FutexLocks
internal import Synchronization

/// What a scheduler does next: all of it in one commit beside the writer.
struct TaskWork {
  var settlements: [TaskSettlement] = []
  /// Tasks whose time has come, by the keys of their rows.
  var due: [(id: TaskID, key: [UInt8])] = []
  /// Attempts whose time, or lease, is over.
  var timeouts: [TaskSettlement] = []
  /// Attempts that are over, and whose handlers have given up their workers without having returned.
  var abandoned: [TaskRun] = []
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
  /// What callers want changed.
  var requests: [TaskRequest] = []
  /// Lines whose waiting tasks move up.
  var ageing: [UInt32] = []
  /// From which key on rows of timers are to be read; nil: they are not.
  var timersFrom: [UInt8]?
  /// Rows of a line that can't be read.
  var damaged: [DamagedTask] = []

  var isEmpty: Bool {
    settlements.isEmpty && due.isEmpty && timeouts.isEmpty && claims.isEmpty && refills.isEmpty && loads.isEmpty
      && pending.isEmpty && abandoned.isEmpty
      && schedules.isEmpty && ageing.isEmpty && requests.isEmpty
      && timersFrom == nil && damaged.isEmpty
  }

  /// At most so many tasks are settled, or become ready, in one commit.
  static let batchMaximum = 512
}

extension TaskDispatcher {
  /// What is to be done now; nil: nothing is, and what brings something wakes the host.
  ///
  /// In this order: what has ended, what is due, what begins.
  /// `start` is that of the host which asks: another one takes work by now.
  func takeWork(_ start: UInt32) -> TaskWork? {
    state.withLock { state in
      guard let host = state.host, host.start == start else { return nil }
      var work = TaskWork()
      let count = min(state.settlements.count, TaskWork.batchMaximum)
      work.settlements = Array(state.settlements.prefix(count))
      state.settlements.removeFirst(count)
      for settlement in work.settlements { state.endEarly(settlement) }
      state.takeDue(&work, host)
      let pendingCount = min(state.pending.count, TaskWork.batchMaximum)
      work.pending = Array(state.pending.prefix(pendingCount))
      state.pending.removeFirst(pendingCount)
      // One after the other: what one has changed the next finds.
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
    while endCount.load(ordering: .relaxed) == count, ContinuousClock.now < end { sched_yield() }
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
    while handCount.load(ordering: .relaxed) == count, ContinuousClock.now < end { sched_yield() }
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
      state.requests = work.requests + state.requests
      state.isCommitting = false
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
    let (host, timersChanged) = state.withLock { state -> (Host?, Bool) in
      state.isCommitting = false
      if changes.isEmpty { return (nil, false) }
      for (name, queue) in changes.names { state.note(name, queue) }
      for id in changes.parents { state.parents.insert(id) }
      state.pending += changes.pending
      // Where no transaction is left that changes a task the next commit continues.
      if state.held.isEmpty { state.pending += changes.heldPending } else { state.heldPending += changes.heldPending }
      for (lineID, id, key) in changes.removed {
        guard let line = state.lines[lineID] else { continue }
        line.remove(id, key: key)
        // It may have been the head that the queue waited for.
        state.enqueue(line)
      }
      // A transaction may have changed one after the commit, and have been acknowledged before this.
      for (line, entry) in changes.entries where !state.removedMeanwhile.contains(entry.key) {
        state.insert(entry, line)
      }
      for run in changes.cancelling {
        run.state.withLock { $0.isCancelling = true }
        run.state.withLock { $0.task }?.cancel()
      }
      guard let host = state.host else { return (nil, false) }
      for timer in changes.timers { state.insert(timer, host) }
      return (state.wakingHost(), !changes.timers.isEmpty)
    }
    host?.wake()
    if timersChanged { state.withLock { $0.host }?.timersChanged() }
  }

  /// Attempts are over although their handlers have not returned. Returns what is to be woken.
  func settle(_ settlements: [TaskSettlement]) -> Host? {
    state.withLock { state in
      state.settlements += settlements
      return state.wakingHost()
    }
  }

  /// Something is to be changed. Returns what is to be woken, if anything is; nil: nothing runs tasks.
  func add(_ request: TaskRequest) -> Host?? {
    state.withLock { state -> Host?? in
      guard state.host != nil, !state.isStopping else { return .none }
      state.requests.append(request)
      return .some(state.wakingHost())
    }
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

  /// The end of an attempt is committed. `entry` is the task where it is in line again. `sawCancel`: where the attempt was
  /// cancelled, that commit has said so.
  func didSettle(
    _ run: TaskRun, _ entry: LineEntry?, _ timers: [TaskTimers.Entry], isDone: Bool = false, sawCancel: Bool = false
  ) {
    let host = state.withLock { state -> Host? in
      guard state.isOfHost(run) else { return nil }
      state.end(run, entry)
      if !sawCancel, run.state.withLock({ $0.isCancelling }) {
        state.requests.append(TaskRequest(.cancelMissed, [run.id]))
      }
      // One that is dead may be revived, with children that wait for it.
      if isDone { state.parents.remove(run.id) }
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
