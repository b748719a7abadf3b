/// The lines of a start, in memory: those that have tasks or run some, the state that the lines of one queue share, and
/// the order in which lines have their turns.
///
/// - A line is here while it has tasks or runs some, and the family of its queue at least as long.
/// - A line for which `isQueued` is set is in `ring`. Another entry of `ring` is obsolete: its line was removed, or was
///   removed and made again.
/// - `lineCount` of a family is the number of its lines here. A family without lines is in `emptied`.
struct TaskLines: ~Copyable {
  private var lines: [LineID: TaskLine] = [:]
  private(set) var families: [UInt32: QueueFamily] = [:]
  /// The families that have no lines, and may be forgotten.
  private var emptied: [QueueFamily] = []
  private var emptiedIndex = 0
  /// The queues whose tasks move up after a time.
  var ageing: Set<UInt32> = []
  /// The tokens of queues as they were on disk at the start.
  private var storedTokens: [UInt32: TokenBucket] = [:]
  /// The lines that may start a task, in turn.
  private(set) var ring = LineQueue()
  /// Whether the lines of all queues that have tasks are known.
  ///
  /// Until then no work is taken: a claim made during the recovery of a start would look like one of a process that
  /// died.
  var isDiscovered = false

  subscript(_ id: LineID) -> TaskLine? { lines[id] }
  var values: Dictionary<LineID, TaskLine>.Values { lines.values }
  var count: Int { lines.count }

  // MARK: - Lines and their queues

  /// Adds a line. Until all lines are known, any of them may have tasks on disk.
  mutating func add(_ id: LineID, _ family: QueueFamily, isOnDisk: Bool?) -> TaskLine {
    let line = TaskLine(id, family, isOnDisk: isOnDisk ?? !isDiscovered)
    lines[id] = line
    family.lineCount += 1
    return line
  }

  /// Adds the state of a queue.
  mutating func addFamily(_ number: UInt32, _ name: QueueName, _ rules: QueueRules, isPaused: Bool) -> QueueFamily {
    let family = QueueFamily(
      number, name, rules, isPaused: isPaused, storedTokens.removeValue(forKey: number))
    families[number] = family
    return family
  }

  /// Sets the tokens of queues, as read from disk.
  mutating func loadTokens(_ tokens: [UInt32: TokenBucket]) {
    storedTokens = tokens
    for (number, family) in families {
      if let bucket = storedTokens.removeValue(forKey: number) { family.loadTokens(bucket) }
    }
  }

  /// Removes a line that has no task and runs none.
  mutating func remove(_ line: TaskLine, _ clock: any SchedulerClock) {
    lines[line.id] = nil
    let family = line.family
    family.lineCount -= 1
    if family.endCall(line) { callNext(of: family) }
    if family.lineCount == 0, !family.isEmptied {
      family.isEmptied = true
      emptied.append(family)
    }
    forgetFamilies(clock)
  }

  /// Forgets families that have no lines and whose buckets are full again.
  ///
  /// Two families are examined for each line that is removed. So there are never more of them than lines that were
  /// removed, and no timer is needed.
  private mutating func forgetFamilies(_ clock: any SchedulerClock) {
    for _ in 0..<min(2, emptied.count) {
      if emptiedIndex >= emptied.count { emptiedIndex = 0 }
      let family = emptied[emptiedIndex]
      if family.lineCount == 0, !family.isIdle(clock.continuousNow.milliseconds) {
        emptiedIndex += 1
        continue
      }
      family.isEmptied = false
      if family.lineCount == 0 { families[family.number] = nil }
      emptied.swapAt(emptiedIndex, emptied.count - 1)
      emptied.removeLast()
    }
  }

  // MARK: - Turns

  /// Notes that a line may start a task. A line that waits for its turn within its queue is called when it comes.
  mutating func enqueue(_ line: TaskLine) {
    if line.isQueued || line.waitsForFamily { return }
    line.isQueued = true
    ring.append(line.id)
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

  /// Removes a task from a line. It may have been the head that the queue waited for.
  mutating func removeTask(_ id: TaskID, _ key: [UInt8], from lineID: LineID) {
    guard let line = lines[lineID] else { return }
    line.remove(id, key: key)
    enqueue(line)
  }

  /// Takes the tasks of all lines into account again that waited for a handler.
  mutating func lookAgain() {
    for line in lines.values {
      line.lookAgain()
      enqueue(line)
    }
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

  /// Counts the end of an attempt. The other lines of the queue, which have waited, come before this one.
  mutating func countEnd(_ line: TaskLine) {
    line.countRun(-1)
    callNext(of: line.family)
  }

  /// Notes that a queue was paused or resumed. The lines of one that was resumed continue their turns.
  mutating func setPaused(_ isPaused: Bool, _ number: UInt32) {
    guard let family = families[number] else { return }
    family.isPaused = isPaused
    callNext(of: family)
  }
}
