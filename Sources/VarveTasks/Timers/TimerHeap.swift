/// A heap of timers, the earliest of which is first.
struct TimerHeap {
  private var entries: [Timers.Entry] = []
  /// The number of timers for dates.
  private(set) var wallCount = 0

  var count: Int { entries.count }
  var first: Timers.Entry? { entries.first }

  /// Complexity: O(log *n*).
  mutating func insert(_ entry: Timers.Entry) {
    if entry.wall != nil { wallCount += 1 }
    entries.append(entry)
    var index = entries.count - 1
    while index > 0 {
      let parent = (index - 1) / 2
      if entries[parent].deadline <= entries[index].deadline { break }
      entries.swapAt(parent, index)
      index = parent
    }
  }

  /// Complexity: O(log *n*).
  @discardableResult
  mutating func popFirst() -> Timers.Entry? {
    guard let first = entries.first else { return nil }
    if first.wall != nil { wallCount -= 1 }
    let last = entries.removeLast()
    if entries.isEmpty { return first }
    entries[0] = last
    sink(0)
    return first
  }

  private mutating func sink(_ start: Int) {
    var index = start
    while true {
      var least = index
      let (left, right) = (2 * index + 1, 2 * index + 2)
      if left < entries.count, entries[left].deadline < entries[least].deadline { least = left }
      if right < entries.count, entries[right].deadline < entries[least].deadline { least = right }
      if least == index { return }
      entries.swapAt(least, index)
      index = least
    }
  }

  /// Removes the timers for which `isObsolete` returns true.
  ///
  /// Complexity: O(*n*).
  mutating func removeAll(where isObsolete: (Timers.Entry) -> Bool) {
    entries.removeAll(where: isObsolete)
    wallCount = entries.count { $0.wall != nil }
    restore()
  }

  /// Sets the deadlines of dates again, because the wall clock was set.
  mutating func resetDates(_ deadline: (Int64) -> Duration) {
    for index in entries.indices {
      if let wall = entries[index].wall { entries[index].deadline = deadline(wall) }
    }
    restore()
  }

  private mutating func restore() {
    for index in stride(from: entries.count / 2, through: 0, by: -1) where index < entries.count { sink(index) }
  }
}
