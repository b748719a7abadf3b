/// The next tasks of a subqueue, in memory: the first ones in their order, and the key from which on others are on
/// disk.
///
/// It exists while the subqueue has tasks or runs some.
///
/// ```
///   entries                       end
///   ├─ first … last ─────────────┤├─ on disk, not looked at ─┤
/// ```
/// Taking a task reads nothing. When no entry is left, tasks are read from disk, from `end` on: never from the start of
/// the queue, where a scan might still iterate over the rows of tasks that have ended.
final class Subqueue {
  let id: SubqueueID
  /// The queue that the subqueue belongs to.
  let queue: QueueState
  var name: QueueName { queue.name }
  var rules: QueueRules { queue.rules }
  /// The entries in their order, from the index `begin` on.
  private var entries: [QueuedTask] = []
  private var begin = 0
  /// The key from which on there may be tasks on disk that are not among the entries, or `nil` if there are none.
  private(set) var end: [UInt8]?
  /// Whether tasks are being read from disk.
  private(set) var isRefilling = false
  /// The tasks after `end` that came while tasks are being read.
  private var missed: [QueuedTask] = []
  /// The first key of the tasks that were added during the current read and are only on disk, or `nil` if there are
  /// none. The read may not find them.
  private var moreMeanwhile: [UInt8]?
  /// The rows that were removed while tasks are being read, which may still find them.
  private var ended: Set<[UInt8]> = []
  /// The number of attempts that have begun, or are about to, and have not ended.
  private(set) var runningCount = 0
  /// The maximum number of these attempts.
  let runningMaximum: Int
  /// Whether the subqueue waits for a token.
  var waitsForToken = false
  /// Whether the subqueue is among those of its queue that wait for their turn.
  var waitsForQueue = false
  /// Whether the subqueue was called after such a wait, and has not begun a task since.
  var isCalled = false
  /// Whether tasks of the subqueue have begun since claims of its next tasks were made ahead.
  var wantsClaims = false
  /// Whether the subqueue is in the turns of those that may start a task.
  var isInTurns = false
  /// Whether it was the subqueue's turn when its tasks had to be read.
  var isReadInTurn = false
  /// The number of tasks that the subqueue has started in a turn that was interrupted.
  var turnCount = 0
  /// The first key of a task that was skipped because it has no handler, or `nil` if none was.
  private(set) var skipped: [UInt8]?

  /// The maximum number of entries. Beyond it, half of them are left to the disk.
  static let entryMaximum = 512
  static let refillCount = 256

  /// Creates a subqueue. `isOnDisk` says whether it has tasks on disk that must be read.
  init(_ id: SubqueueID, _ queue: QueueState, isOnDisk: Bool) {
    self.id = id
    self.queue = queue
    runningMaximum = queue.rules.runningMaximum(hasKey: id.lane != 0)
    end = isOnDisk ? id.begin : nil
  }

  var first: QueuedTask? { begin < entries.count ? entries[begin] : nil }
  var entryCount: Int { entries.count - begin }
  /// Returns the entry with a number, where the first one has the number 0.
  func entry(_ number: Int) -> QueuedTask { entries[begin + number] }
  /// Whether the subqueue has no task, runs none, and has nothing to remember.
  var isIdle: Bool { first == nil && end == nil && runningCount == 0 && !isRefilling && skipped == nil }
  /// Whether tasks must be read from disk now.
  var needsRefill: Bool { first == nil && end != nil && !isRefilling }

  // MARK: - Running attempts

  func countRun(_ number: Int) {
    runningCount += number
    queue.runningCount += number
  }

  // MARK: - Entries in memory

  func popFirst() -> QueuedTask? {
    guard begin < entries.count else { return nil }
    defer {
      begin += 1
      if begin == entries.count {
        entries.removeAll(keepingCapacity: true)
        begin = 0
      } else if begin >= Self.entryMaximum {
        entries.removeFirst(begin)
        begin = 0
      }
    }
    return entries[begin]
  }

  /// Adds a task that is queued, for the first time or again.
  func insert(_ entry: QueuedTask) {
    if let end, !QueuedTask.precedes(entry.key, end) {
      if isRefilling { missed.append(entry) }
      return
    }
    add(entry)
    if entryCount > Self.entryMaximum { cut() }
  }

  /// Notes that from a key on there are tasks on disk that are not among the entries.
  func noteMore(from key: [UInt8]) {
    // The read may not have found them.
    if isRefilling, moreMeanwhile.map({ QueuedTask.precedes(key, $0) }) ?? true { moreMeanwhile = key }
    if let end, !QueuedTask.precedes(key, end) { return }
    end = key
    let index = position(of: key)
    if isRefilling { missed += entries[index...] }
    entries.removeSubrange(index...)
  }

  private func add(_ entry: QueuedTask) {
    if let last = entries.last, begin < entries.count, !QueuedTask.precedes(last.key, entry.key) {
      let index = position(of: entry.key)
      if entries[index].key == entry.key { return entries[index] = entry }
      entries.insert(entry, at: index)
    } else {
      entries.append(entry)
    }
  }

  private func cut() {
    let kept = begin + Self.refillCount
    end = entries[kept].key
    if isRefilling { missed += entries[kept...] }
    entries.removeSubrange(kept...)
  }

  /// Returns the index of the first entry whose key is not less than a key.
  private func position(of key: [UInt8]) -> Int {
    var (low, high) = (begin, entries.count)
    while low < high {
      let middle = (low + high) / 2
      if QueuedTask.precedes(entries[middle].key, key) { low = middle + 1 } else { high = middle }
    }
    return low
  }

  /// Removes a task that is not queued any more.
  func remove(_ id: TaskID, key: [UInt8]) {
    missed.removeAll { $0.key == key }
    if isRefilling { ended.insert(key) }
    let index = position(of: key)
    guard index < entries.count, entries[index].key == key else { return }
    entries.remove(at: index)
  }

  /// Notes that a task has ended or was moved, because a read from disk may still find its row.
  func noteEnded(_ key: @autoclosure () -> [UInt8]) { if isRefilling { ended.insert(key()) } }

  /// Lets the first queued task run, a head of a serial queue that waited. Does nothing if another task is first by
  /// now.
  func wakeFirst(_ key: [UInt8]) {
    if let first, first.key == key, first.state == .retryWait { entries[begin].state = .ready }
  }

  /// Sets the value of the first task, which was read from disk. A value of `nil` means that the task is not there any
  /// more.
  func loadFirst(_ key: [UInt8], _ value: [UInt8]?) {
    guard let first, first.key == key else { return }
    if let value { entries[begin].value = value } else { _ = popFirst() }
  }

  // MARK: - Tasks without a handler

  /// Skips the first task, which has no handler. Other tasks overtake it until one is registered.
  func skipFirst() {
    guard let entry = popFirst() else { return }
    if skipped.map({ QueuedTask.precedes(entry.key, $0) }) ?? true { skipped = entry.key }
  }

  /// Takes the skipped tasks into account again, because handlers were registered.
  func lookAgain() {
    guard let skipped else { return }
    self.skipped = nil
    if isRefilling { missed += entries[begin...] }
    entries.removeAll()
    begin = 0
    end = end.map { QueuedTask.precedes($0, skipped) ? $0 : skipped } ?? skipped
  }

  // MARK: - Entries on disk

  /// Begins to read tasks from disk. Returns the key to start from, or `nil` if there is nothing to read or a read is
  /// in progress.
  func beginRefill() -> [UInt8]? {
    guard !isRefilling, let end else { return nil }
    isRefilling = true
    return end
  }

  /// Adds the tasks that were read from disk, from the key `from` on.
  ///
  /// `next` is the first key that was not read, or `nil` if there are no more. `isRunning` returns whether a task has
  /// an attempt: its row still exists. Returns the number of tasks that were read and are not queued.
  func endRefill(_ found: [QueuedTask], from: [UInt8], next: [UInt8]?, isRunning: (TaskID) -> Bool) -> Int {
    let more = moreMeanwhile
    defer { forgetMeanwhile() }
    isRefilling = false
    // The next read must begin before what was read, for example because skipped tasks are taken into account again.
    if let end, QueuedTask.precedes(end, from) { return found.count }
    end = next
    var addedCount = 0
    for entry in found where !isRunning(entry.id) && !ended.contains(entry.key) {
      add(entry)
      addedCount += 1
    }
    for entry in missed where !isRunning(entry.id) && !ended.contains(entry.key) { insert(entry) }
    if let more { noteMore(from: more) }
    if entryCount > Self.entryMaximum { cut() }
    return found.count - addedCount
  }

  /// Notes that the disk could not be read.
  func failRefill() {
    isRefilling = false
    forgetMeanwhile()
  }

  private func forgetMeanwhile() {
    missed.removeAll()
    ended.removeAll()
    moreMeanwhile = nil
  }
}
