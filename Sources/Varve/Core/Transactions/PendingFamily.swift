/// What a transaction has written to one family.
///
/// Entries are found by hashing. Who walks them needs their order, so the keys are also kept in sorted runs: what
/// was added since the last walk is sorted then, and becomes a run; runs of like size are merged, so that a walk
/// after each of n writes costs O(log n) a write and not O(n). Most transactions never walk, and sort nothing.
struct PendingFamily {
  private let family: StorageFamily
  private var entries = ByteTable<PendingEntry>()
  /// Ranges of the snapshot that are gone. Entries count before them.
  var cleared = KeyRanges()
  /// Keys in order. A key is in one run, and need not have an entry any more.
  private var runs: [[[UInt8]]] = []
  /// How many keys are in a run: those that came first.
  private var sortedCount = 0

  init(_ family: StorageFamily) { self.family = family }

  var isEmpty: Bool { entries.isEmpty && cleared.isEmpty }

  @inline(__always)
  func find(_ key: [UInt8]) -> PendingEntry? {
    if let entry = entries[key] { return entry }
    return cleared.isEmpty || !cleared.contains(key) ? nil : .delete
  }

  /// Returns what was there.
  @inline(__always)
  mutating func set(_ key: [UInt8], _ entry: PendingEntry) -> PendingEntry? { entries.set(entry, for: key) }

  /// Adds to a counter. Returns what was there, and what is now.
  mutating func add(_ number: Int64, to key: [UInt8]) -> (previous: PendingEntry?, entry: PendingEntry) {
    let entry: PendingEntry =
      switch find(key) {
      case nil: .add(number)
      case .delete: .put(StorageBatch.counterBytes(number))
      case .add(let before): .add(before &+ number)
      case .put(let value): .put(StorageBatch.counterBytes((StorageBatch.counterNumber(value) ?? 0) &+ number))
      }
    return (set(key, entry), entry)
  }

  /// Puts back what was there, and returns what is not any more.
  mutating func restore(_ key: [UInt8], _ previous: PendingEntry?) -> PendingEntry? {
    if let previous { return set(key, previous) }
    // The key stays in its run, where walks pass it.
    return entries.remove(key)
  }

  /// Clears a range, and returns the entries that it had.
  mutating func clear(_ range: StorageRange) -> [(key: [UInt8], entry: PendingEntry)] {
    let gone = walk(range)
    for (key, _) in gone { entries.remove(key) }
    cleared.insert(range)
    return gone
  }

  mutating func view(of range: StorageRange) -> PendingView {
    PendingView(entries: walk(range), cleared: cleared)
  }

  // MARK: - Order

  /// The entries of a range, in order.
  private mutating func walk(_ range: StorageRange) -> [(key: [UInt8], entry: PendingEntry)] {
    if entries.isEmpty { return [] }
    sort()
    var found: [[UInt8]] = []
    for run in runs {
      let begin = Self.place(of: range.lower, in: run)
      let end = range.upper.map { Self.place(of: $0, in: run) } ?? run.count
      if begin < end { found = found.isEmpty ? Array(run[begin..<end]) : Self.merged(found, run[begin..<end]) }
    }
    return found.compactMap { key in entries[key].map { (key, $0) } }
  }

  private mutating func sort() {
    guard sortedCount < entries.entries.count else { return }
    runs.append(entries.entries[sortedCount...].map(\.key).sorted(by: ByteOrder.precedes))
    sortedCount = entries.entries.count
    while runs.count > 1, runs[runs.count - 1].count * 2 > runs[runs.count - 2].count {
      let last = runs.removeLast()
      runs[runs.count - 1] = Self.merged(runs[runs.count - 1], last[...])
    }
  }

  /// The index of the first key that is not before `key`.
  private static func place(of key: [UInt8], in run: [[UInt8]]) -> Int {
    var low = 0
    var high = run.count
    while low < high {
      let middle = (low + high) / 2
      if ByteOrder.precedes(run[middle], key) { low = middle + 1 } else { high = middle }
    }
    return low
  }

  /// Both in order. No key is in both.
  private static func merged(_ left: [[UInt8]], _ right: ArraySlice<[UInt8]>) -> [[UInt8]] {
    var merged: [[UInt8]] = []
    merged.reserveCapacity(left.count + right.count)
    var leftIndex = 0
    var rightIndex = right.startIndex
    while leftIndex < left.count, rightIndex < right.endIndex {
      if ByteOrder.precedes(left[leftIndex], right[rightIndex]) {
        merged.append(left[leftIndex])
        leftIndex += 1
      } else {
        merged.append(right[rightIndex])
        rightIndex += 1
      }
    }
    merged.append(contentsOf: left[leftIndex...])
    merged.append(contentsOf: right[rightIndex...])
    return merged
  }

  // MARK: - The commit

  func addRanges(to batch: inout StorageBatch) {
    for range in cleared.ranges { batch.deleteRange(range, in: family) }
  }

  func addEntries(to batch: inout StorageBatch) {
    for entry in entries.entries {
      switch entry.value {
      case .put(let value): batch.put(entry.key, value, in: family)
      case .delete: batch.delete(entry.key, in: family)
      case .add(let number): batch.add(number, to: entry.key, in: family)
      case nil: break
      }
    }
  }

  func noteWrites(in check: inout StorageCheck) {
    for range in cleared.ranges { check.ranges.append((family, range)) }
    for entry in entries.entries {
      switch entry.value {
      case .put, .delete: check.keys.append((family, entry.key))
      // Additions commute: they conflict with nobody.
      case .add, nil: break
      }
    }
  }
}

/// Ranges of keys that do not overlap or touch, in order.
struct KeyRanges {
  private(set) var ranges: [StorageRange] = []

  var isEmpty: Bool { ranges.isEmpty }

  func contains(_ key: [UInt8]) -> Bool {
    let index = firstIndex(endingBehind: key)
    return index < ranges.count && !ByteOrder.precedes(key, ranges[index].lower)
  }

  /// Where the range that holds a key ends: nil where none does, and an upper bound of nil where it has no end.
  func range(holding key: [UInt8]) -> StorageRange? {
    let index = firstIndex(endingBehind: key)
    return index < ranges.count && !ByteOrder.precedes(key, ranges[index].lower) ? ranges[index] : nil
  }

  /// Adds a range, and joins it with those that it overlaps or touches.
  mutating func insert(_ range: StorageRange) {
    guard !range.isEmpty else { return }
    var joined = range
    // Those that end before the new one begins stay; one that ends where it begins is joined.
    var first = 0
    while first < ranges.count, let upper = ranges[first].upper, ByteOrder.precedes(upper, range.lower) { first += 1 }
    var last = first
    while last < ranges.count, range.upper.map({ !ByteOrder.precedes($0, ranges[last].lower) }) ?? true {
      if ByteOrder.precedes(ranges[last].lower, joined.lower) { joined.lower = ranges[last].lower }
      if let upper = joined.upper {
        joined.upper = ranges[last].upper.map { ByteOrder.precedes(upper, $0) ? $0 : upper }
      }
      last += 1
    }
    ranges.replaceSubrange(first..<last, with: [joined])
  }

  private func firstIndex(endingBehind key: [UInt8]) -> Int {
    var low = 0
    var high = ranges.count
    while low < high {
      let middle = (low + high) / 2
      let endsBehind = ranges[middle].upper.map { ByteOrder.precedes(key, $0) } ?? true
      if endsBehind { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
