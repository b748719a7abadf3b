/// Timers of which there is one for each key: a later timer of the same key replaces the earlier one.
///
/// A timer that is replaced or removed stays in the heap as obsolete. Obsolete timers are removed when they come first,
/// and all at once when they are the majority. So the first timer is never obsolete.
struct KeyedTimers<Key: Hashable> {
  private struct Current {
    let number: UInt64
    let isDate: Bool
  }

  private let key: (Timers.Action) -> Key?
  private var heap = TimerHeap()
  /// The timers that count.
  private var current: [Key: Current] = [:]
  private var lastNumber: UInt64 = 0
  /// The number of timers for dates.
  private(set) var wallCount = 0

  /// Creates a collection of timers. `key` returns the key of a timer with an action.
  init(_ key: @escaping (Timers.Action) -> Key?) { self.key = key }

  /// The number of keys that have a timer.
  var count: Int { current.count }
  /// The number of timers in memory, including obsolete ones.
  var heapCount: Int { heap.count }
  var first: Timers.Entry? { heap.first }
  var keys: Dictionary<Key, some Any>.Keys { current.keys }

  /// Complexity: amortized O(log *n*).
  mutating func insert(_ entry: Timers.Entry) {
    guard let key = key(entry.action) else { return }
    forget(key)
    lastNumber += 1
    var entry = entry
    entry.number = lastNumber
    current[key] = Current(number: lastNumber, isDate: entry.wall != nil)
    if entry.wall != nil { wallCount += 1 }
    heap.insert(entry)
    dropObsolete()
  }

  /// Removes the timer of a key, if it has one.
  ///
  /// Complexity: amortized O(log *n*).
  mutating func remove(_ key: Key) {
    forget(key)
    dropObsolete()
  }

  /// Removes the timers of some keys.
  mutating func removeAll(where isRemoved: (Key) -> Bool) {
    for key in current.keys where isRemoved(key) { forget(key) }
    dropObsolete()
  }

  mutating func popFirst() -> Timers.Entry? {
    guard let first, let key = key(first.action) else { return nil }
    remove(key)
    return first
  }

  private mutating func forget(_ key: Key) {
    guard let timer = current.removeValue(forKey: key) else { return }
    if timer.isDate { wallCount -= 1 }
  }

  private mutating func dropObsolete() {
    let (current, key) = (current, key)
    func isObsolete(_ entry: Timers.Entry) -> Bool {
      key(entry.action).map { current[$0]?.number != entry.number } ?? true
    }
    if heap.count > 2 * current.count + 64 { heap.removeAll(where: isObsolete) }
    while let first = heap.first, isObsolete(first) { heap.popFirst() }
  }

  /// Sets the deadlines of dates again, because the wall clock was set.
  mutating func resetDates(_ deadline: (Int64) -> Duration) {
    heap.resetDates(deadline)
    dropObsolete()
  }
}
