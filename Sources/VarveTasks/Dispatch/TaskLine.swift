/// The tasks of a line that are next, in memory: the first ones, in their order, and where those on disk begin. Exists while
/// the line has tasks, or runs some.
///
/// ```
///   entries                       end
///   ├─ first … last ─────────────┤├─ on disk, not looked at ─┤
/// ```
/// Taking a task reads nothing. When the entries are few those on disk are read, from `end` on: never from where the queue
/// begins, where rows of tasks that have ended may still have to be passed.
final class TaskLine {
  let id: LineID
  /// The queue that it belongs to.
  let family: QueueFamily
  var name: QueueName { family.name }
  var rules: QueueRules { family.rules }
  /// In order, from `begin` on.
  private var entries: [LineEntry] = []
  private var begin = 0
  /// From this key on tasks may be on disk that are not among the entries; nil: none are.
  private(set) var end: [UInt8]?
  /// Whether those on disk are being read.
  private(set) var isRefilling = false
  /// Tasks that came meanwhile, after `end`.
  private var missed: [LineEntry] = []
  /// Rows that were removed meanwhile: what is read may still have them.
  private var ended: Set<[UInt8]> = []
  /// How many attempts are claimed and not over.
  private(set) var runningCount = 0
  /// How many of them have begun.
  private(set) var startedCount = 0
  /// How many may have begun.
  let runningMaximum: Int
  /// Whether it waits for a token.
  var waitsForToken = false
  /// Whether it waits until another task of its queue is over.
  var waitsForFamily = false
  /// Whether the line is among those that may start a task.
  var isQueued = false
  /// The first key of a task that has no handler and was passed.
  private(set) var skipped: [UInt8]?

  /// When there are so many entries half of them are left to the disk.
  static let entryMaximum = 512
  static let refillCount = 256

  /// A line; with `isOnDisk` its tasks are to be read.
  init(_ id: LineID, _ family: QueueFamily, isOnDisk: Bool) {
    self.id = id
    self.family = family
    runningMaximum = family.rules.runningMaximum(hasKey: id.lane != 0)
    end = isOnDisk ? id.begin : nil
  }

  var first: LineEntry? { begin < entries.count ? entries[begin] : nil }
  var entryCount: Int { entries.count - begin }
  /// Whether nothing is left to do or to know.
  var isIdle: Bool { first == nil && end == nil && runningCount == 0 && !isRefilling && skipped == nil }
  /// Whether those on disk are to be read now.
  var needsRefill: Bool { first == nil && end != nil && !isRefilling }

  // MARK: - What runs

  /// Whether a handler may begin.
  var mayStart: Bool { startedCount < runningMaximum && family.startedCount < family.rules.runningMaximum }

  func countRun(_ number: Int) {
    runningCount += number
    family.runningCount += number
  }

  func countStart(_ number: Int) {
    startedCount += number
    family.startedCount += number
  }

  // MARK: - Those in memory

  func popFirst() -> LineEntry? {
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

  /// A task came, or comes back.
  func insert(_ entry: LineEntry) {
    if let end, !LineEntry.precedes(entry.key, end) {
      if isRefilling { missed.append(entry) }
      return
    }
    add(entry)
    if entryCount > Self.entryMaximum { cut() }
  }

  /// From a key on tasks are on disk that are not among the entries.
  func noteMore(from key: [UInt8]) {
    if let end, !LineEntry.precedes(key, end) { return }
    end = key
    let index = position(of: key)
    if isRefilling { missed += entries[index...] }
    entries.removeSubrange(index...)
  }

  private func add(_ entry: LineEntry) {
    if let last = entries.last, begin < entries.count, !LineEntry.precedes(last.key, entry.key) {
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

  /// The first index whose key is not before a key.
  private func position(of key: [UInt8]) -> Int {
    var (low, high) = (begin, entries.count)
    while low < high {
      let middle = (low + high) / 2
      if LineEntry.precedes(entries[middle].key, key) { low = middle + 1 } else { high = middle }
    }
    return low
  }

  /// A task is not in line any more.
  func remove(_ id: TaskID, key: [UInt8]) {
    missed.removeAll { $0.key == key }
    if isRefilling { ended.insert(key) }
    let index = position(of: key)
    guard index < entries.count, entries[index].key == key else { return }
    entries.remove(at: index)
  }

  /// A task has ended, or stands elsewhere: what is being read may still have it.
  func noteEnded(_ key: @autoclosure () -> [UInt8]) { if isRefilling { ended.insert(key()) } }

  /// The first task in line, a head that waited, may run now. Nothing happens where another one is first by now.
  func wakeFirst(_ key: [UInt8]) {
    if let first, first.key == key, first.state == .retryWait { entries[begin].state = .ready }
  }

  /// The value of the first task was read; nil: it is not there any more.
  func loadFirst(_ key: [UInt8], _ value: [UInt8]?) {
    guard let first, first.key == key else { return }
    if let value { entries[begin].value = value } else { _ = popFirst() }
  }

  // MARK: - Tasks without a handler

  /// The first task has no handler: others pass it until one is registered.
  func skipFirst() {
    guard let entry = popFirst() else { return }
    if skipped.map({ LineEntry.precedes(entry.key, $0) }) ?? true { skipped = entry.key }
  }

  /// Handlers were registered: what was passed is looked at again.
  func lookAgain() {
    guard let skipped else { return }
    self.skipped = nil
    if isRefilling { missed += entries[begin...] }
    entries.removeAll()
    begin = 0
    end = end.map { LineEntry.precedes($0, skipped) ? $0 : skipped } ?? skipped
  }

  // MARK: - Those on disk

  /// Returns from which key on the disk is to be read.
  func beginRefill() -> [UInt8]? {
    guard !isRefilling, let end else { return nil }
    isRefilling = true
    return end
  }

  /// What the disk has from there on, and the first key that was not read; nil: there are no more. `isRunning` says which tasks
  /// have a handler, whose rows are still there.
  func endRefill(_ found: [LineEntry], from: [UInt8], next: [UInt8]?, isRunning: (TaskID) -> Bool) {
    isRefilling = false
    defer {
      missed.removeAll()
      ended.removeAll()
    }
    // Tasks that were passed are looked at again, from before what was read.
    if let end, LineEntry.precedes(end, from) { return }
    end = next
    for entry in found where !isRunning(entry.id) && !ended.contains(entry.key) { add(entry) }
    for entry in missed where !isRunning(entry.id) && !ended.contains(entry.key) { insert(entry) }
    if entryCount > Self.entryMaximum { cut() }
  }

  /// The disk could not be read.
  func failRefill() {
    isRefilling = false
    missed.removeAll()
    ended.removeAll()
  }
}
