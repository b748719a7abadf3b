/// The subqueues of a start, in memory: those that have tasks or run some, the state that the subqueues of one queue
/// share, and the order in which subqueues have their turns.
///
/// - A subqueue is here while it has tasks or runs some, and the state of its queue at least as long.
/// - A subqueue for which `isInTurns` is set is in `turns`. Another entry of `turns` is obsolete: its subqueue was
///   removed, or was removed and made again.
/// - `subqueueCount` of a queue is the number of its subqueues here. A queue without subqueues is in `emptied`.
struct Subqueues: ~Copyable {
  private var subqueues: [SubqueueID: Subqueue] = [:]
  private(set) var queues: [UInt32: QueueState] = [:]
  /// The queues that have no subqueues, and may be forgotten.
  private var emptied: [QueueState] = []
  private var emptiedIndex = 0
  /// The queues whose tasks move up after a time.
  var ageing: Set<UInt32> = []
  /// The tokens of queues as they were on disk at the start.
  private var storedTokens: [UInt32: TokenBucket] = [:]
  /// The subqueues that may start a task, in turn.
  private(set) var turns = TurnQueue()
  /// Whether the subqueues of all queues that have tasks are known.
  ///
  /// Until then no work is taken: a claim made during the recovery of a start would look like one of a process that
  /// died.
  var isDiscovered = false

  subscript(_ id: SubqueueID) -> Subqueue? { subqueues[id] }
  var values: Dictionary<SubqueueID, Subqueue>.Values { subqueues.values }
  var count: Int { subqueues.count }

  // MARK: - Subqueues and their queues

  /// Adds a subqueue. Until all subqueues are known, any of them may have tasks on disk.
  mutating func add(_ id: SubqueueID, _ queue: QueueState, isOnDisk: Bool?) -> Subqueue {
    let subqueue = Subqueue(id, queue, isOnDisk: isOnDisk ?? !isDiscovered)
    subqueues[id] = subqueue
    queue.subqueueCount += 1
    return subqueue
  }

  /// Adds the state of a queue.
  mutating func addQueue(_ number: UInt32, _ name: QueueName, _ rules: QueueRules, isPaused: Bool) -> QueueState {
    let queue = QueueState(
      number, name, rules, isPaused: isPaused, storedTokens.removeValue(forKey: number))
    queues[number] = queue
    return queue
  }

  /// Sets the tokens of queues, as read from disk.
  mutating func loadTokens(_ tokens: [UInt32: TokenBucket]) {
    storedTokens = tokens
    for (number, queue) in queues {
      if let bucket = storedTokens.removeValue(forKey: number) { queue.loadTokens(bucket) }
    }
  }

  /// Removes a subqueue that has no task and runs none.
  mutating func remove(_ subqueue: Subqueue, _ clock: any SchedulerClock) {
    subqueues[subqueue.id] = nil
    let queue = subqueue.queue
    queue.subqueueCount -= 1
    if queue.endCall(subqueue) { callNext(of: queue) }
    if queue.subqueueCount == 0, !queue.isEmptied {
      queue.isEmptied = true
      emptied.append(queue)
    }
    forgetQueues(clock)
  }

  /// Forgets queues that have no subqueues and whose buckets are full again.
  ///
  /// Two queues are examined for each subqueue that is removed. So there are never more of them than subqueues that
  /// were removed, and no timer is needed.
  private mutating func forgetQueues(_ clock: any SchedulerClock) {
    for _ in 0..<min(2, emptied.count) {
      if emptiedIndex >= emptied.count { emptiedIndex = 0 }
      let queue = emptied[emptiedIndex]
      if queue.subqueueCount == 0, !queue.isIdle(clock.continuousNow.milliseconds) {
        emptiedIndex += 1
        continue
      }
      queue.isEmptied = false
      if queue.subqueueCount == 0 { queues[queue.number] = nil }
      emptied.swapAt(emptiedIndex, emptied.count - 1)
      emptied.removeLast()
    }
  }

  // MARK: - Turns

  /// Notes that a subqueue may start a task. A subqueue that waits for its turn within its queue is called when it
  /// comes.
  mutating func enqueue(_ subqueue: Subqueue) {
    if subqueue.isInTurns || subqueue.waitsForQueue { return }
    subqueue.isInTurns = true
    turns.append(subqueue.id)
  }

  /// Lets a subqueue continue its turn.
  mutating func enqueueFirst(_ subqueue: Subqueue) {
    if subqueue.isInTurns { return }
    subqueue.isInTurns = true
    turns.prepend(subqueue.id)
  }

  /// Notes that tasks of a subqueue were read. If that was in its turn, it continues.
  mutating func enqueueRead(_ subqueue: Subqueue) {
    if subqueue.isReadInTurn { enqueueFirst(subqueue) } else { enqueue(subqueue) }
    subqueue.isReadInTurn = false
  }

  /// Removes a task from a subqueue. It may have been the head that the queue waited for.
  mutating func removeTask(_ id: TaskID, _ key: [UInt8], from subqueueID: SubqueueID) {
    guard let subqueue = subqueues[subqueueID] else { return }
    subqueue.remove(id, key: key)
    enqueue(subqueue)
  }

  /// Takes the tasks of all subqueues into account again that waited for a handler.
  mutating func lookAgain() {
    for subqueue in subqueues.values {
      subqueue.lookAgain()
      enqueue(subqueue)
    }
  }

  /// Takes the next subqueue out of the turns.
  mutating func nextSubqueue() -> Subqueue? {
    while let id = turns.popFirst() {
      guard let subqueue = subqueues[id], subqueue.isInTurns else { continue }
      subqueue.isInTurns = false
      return subqueue
    }
    return nil
  }

  /// Lets the subqueues of a queue that have waited longest begin tasks, as many as the queue allows.
  mutating func callNext(of queue: QueueState) {
    if queue.isPaused { return }
    while let id = queue.nextWaiting() {
      guard let subqueue = subqueues[id], subqueue.waitsForQueue else { continue }
      queue.call(subqueue)
      enqueue(subqueue)
    }
  }

  /// Counts the end of an attempt. The other subqueues of the queue, which have waited, come before this one.
  mutating func countEnd(_ subqueue: Subqueue) {
    subqueue.countRun(-1)
    callNext(of: subqueue.queue)
  }

  /// Notes that a queue was paused or resumed. The subqueues of one that was resumed continue their turns.
  mutating func setPaused(_ isPaused: Bool, _ number: UInt32) {
    guard let queue = queues[number] else { return }
    queue.isPaused = isPaused
    callNext(of: queue)
  }
}
