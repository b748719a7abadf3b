internal import FutexLocks
internal import Synchronization
internal import Varve

/// What open transactions ask and change.
extension TaskDispatcher {
  /// Returns the queue with a name, as of the last acknowledged commit.
  func queue(_ name: QueueName) -> TaskNames.Queue? { state.withLock { $0.names[name] } }
  func name(_ number: UInt32) -> QueueName? { state.withLock { $0.texts[number] } }
  /// The numbers of all queues.
  var queueNumbers: [UInt32] { state.withLock { $0.texts.keys.sorted() } }

  /// The number of ids that a record on disk reserves in advance.
  static let idBlock: UInt64 = 1 << 16

  /// Returns the first of some ids that were never assigned.
  ///
  /// `last` is the id up to which the caller must record on disk that ids may have been assigned, or `nil` if the disk
  /// has such a record.
  func takeIDs(_ count: Int) -> (first: UInt64, last: UInt64?) {
    state.withLock { state in
      let first = state.nextID
      state.nextID += UInt64(count)
      return (first, state.nextID - 1 > state.lastID ? state.nextID - 1 + Self.idBlock : nil)
    }
  }

  /// Lets the tasks that run count as those of a process that has died.
  func forgetStart() { state.withLock { $0.recoveredStart = nil } }

  /// Returns whether an id was ever assigned.
  func isKnown(_ id: TaskID) -> Bool { state.withLock { id.rawValue > 0 && id.rawValue < $0.nextID } }

  /// Returns the maximum number of waiting tasks of a queue, or `nil` if it has no limit or no host runs tasks here.
  func maxWaiting(_ queue: QueueName) -> Int? {
    guard hasWaitingLimits.load(ordering: .relaxed) else { return nil }
    return state.withLock { $0.host }?.rules(queue).maxWaiting
  }

  /// Keeps claims from taking a task until `release`. If the task runs, returns its attempt instead.
  func hold(_ id: TaskID) -> TaskRun? {
    state.withLock { state in
      if let run = state.running[id] { return run }
      state.held[id, default: 0] += 1
      return nil
    }
  }

  /// Keeps claims from taking those of some tasks that do not run, until `release`.
  ///
  /// Returns the tasks that are held, and the tasks that are in motion: those that run, and those of the held ones that
  /// a commit of the scheduler may be changing now.
  func hold(_ ids: [TaskID]) -> (held: [TaskID], moving: [TaskID]) {
    var (held, moving): ([TaskID], [TaskID]) = ([], [])
    var rest = ids[...]
    // The lock is held for a short time only.
    while !rest.isEmpty {
      let chunk = rest.prefix(TurnWork.batchMaximum)
      rest = rest.dropFirst(chunk.count)
      state.withLock { state in
        for id in chunk {
          let isRunning = state.running[id] != nil
          if isRunning || state.loop.changing.contains(id) { moving.append(id) }
          if isRunning { continue }
          state.held[id, default: 0] += 1
          held.append(id)
        }
      }
    }
    return (held, moving)
  }

  /// Returns the attempt of a task, or `nil` if the task does not run.
  func run(_ id: TaskID) -> TaskRun? { state.withLock { $0.running[id] } }

  /// The numbers of tasks that run, by kind.
  var runningKinds: [String: Int] {
    state.withLock { state in state.running.runs.values.reduce(into: [:]) { $0[$1.record.kind, default: 0] += 1 } }
  }

  /// The tasks that run.
  var runningTasks: [TaskID] { state.withLock { Array($0.running.runs.keys) } }

  /// Ends the hold of some tasks, which may begin from now on.
  func release(_ ids: Set<TaskID>) {
    var isDue = false
    // The lock is held for a short time only.
    var (rest, left) = (ids.makeIterator(), ids.count)
    while left > TurnWork.batchMaximum {
      state.withLock { state in
        for _ in 0..<TurnWork.batchMaximum { if let id = rest.next(), state.release(id) { isDue = true } }
      }
      left -= TurnWork.batchMaximum
    }
    let host = state.withLock { state in
      while let id = rest.next() { if state.release(id) { isDue = true } }
      if state.parents.releasePending() { isDue = true }
      return isDue ? state.beginPumping() : state.wakingHost()
    }
    host?.wake()
  }
}
