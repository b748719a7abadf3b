/// The intervals into which the bounds of level 0's tables divide the keys, and those that each table covers.
///
/// They are computed by one sweep over the sorted bounds, and one over the tables from the oldest on, in a tree of
/// maxima over the intervals: O(n log n), however many tables overlap.
struct LevelZeroIntervals: Sendable {
  /// The intervals that each table covers, in the order of the tables. Never empty.
  let ranges: [Range<Int>]
  /// The number of intervals.
  let count: Int

  /// A bound of a table: an interval begins at a key, or directly after it.
  private struct Boundary {
    let table: Int
    let isStart: Bool
    let head: UInt64
    let key: ByteView
    /// An included upper bound ends directly after its key, so it sorts after everything at the key.
    let isAfterKey: Bool
  }

  /// Assigns each table the run of intervals that it covers; two tables overlap exactly if their runs do.
  init(_ tables: [TableMetadata]) {
    var boundaries: [Boundary] = []
    boundaries.reserveCapacity(tables.count * 2)
    for (index, table) in tables.enumerated() {
      boundaries.append(
        Boundary(table: index, isStart: true, head: table.smallestHead, key: table.smallest, isAfterKey: false))
      boundaries.append(
        Boundary(
          table: index, isStart: false, head: table.largestHead, key: table.largest,
          isAfterKey: !table.largestIsExcluded))
    }
    boundaries.sort { left, right in
      if left.head != right.head { return left.head < right.head }
      let order = left.key.compare(right.key)
      if order != 0 { return order < 0 }
      return !left.isAfterKey && right.isAfterKey
    }
    var starts = [Int](repeating: 0, count: tables.count)
    var ranges = [Range<Int>](repeating: 0..<0, count: tables.count)
    var interval = 0
    var previous: Boundary?
    for boundary in boundaries {
      if let previous, previous.key != boundary.key || previous.isAfterKey != boundary.isAfterKey { interval += 1 }
      previous = boundary
      if boundary.isStart {
        starts[boundary.table] = interval
      } else {
        // An empty run (a table with one excluded key) is impossible: bounds are at least one key apart.
        ranges[boundary.table] = starts[boundary.table]..<max(interval, starts[boundary.table] + 1)
      }
    }
    self.ranges = ranges
    count = boundaries.isEmpty ? 0 : interval + 1
  }

  /// Returns, for each interval, the number of counted tables that cover it. Complexity: O(n).
  func depths(where isCounted: (Int) -> Bool) -> [Int] {
    var depths = [Int](repeating: 0, count: count + 1)
    for (index, range) in ranges.enumerated() where isCounted(index) {
      depths[range.lowerBound] += 1
      depths[range.upperBound] -= 1
    }
    var depth = 0
    for interval in depths.indices {
      depth += depths[interval]
      depths[interval] = depth
    }
    return Array(depths[..<count])
  }

  /// Returns, for each interval, the number of tables that cover it and whose index is above that of `bounds`.
  /// Complexity: O(n log n).
  func depths(below bounds: [Int]) -> [Int] {
    var changes = [[(index: Int, change: Int)]](repeating: [], count: count + 1)
    for (index, range) in ranges.enumerated() {
      changes[range.lowerBound].append((index, 1))
      changes[range.upperBound].append((index, -1))
    }
    // A binary indexed tree (Fenwick 1994) of the tables over the interval.
    var sums = [Int](repeating: 0, count: ranges.count + 1)
    var total = 0
    return bounds.indices.map { interval in
      for (index, change) in changes[interval] {
        total += change
        var node = index + 1
        while node < sums.count {
          sums[node] += change
          node += node & -node
        }
      }
      var above = total
      var node = bounds[interval] + 1
      while node > 0 {
        above -= sums[node]
        node &= node - 1
      }
      return above
    }
  }

  /// Returns the tables by index, from the oldest on, each with its sublevel. The tables are newest first.
  func sublevels() -> [(table: Int, level: Int)] {
    var tops = IntervalMaxima(count: count)
    return ranges.indices.reversed().map { index in
      let level = tops.maximum(in: ranges[index])
      tops.raise(ranges[index], to: level + 1)
      return (index, level)
    }
  }

  /// Returns the indices of two tables that overlap and are not disjoint in sequence, or nil if there are none.
  /// `tables` are those from which the intervals were computed, newest first.
  func conflict(in tables: [TableMetadata]) -> (newer: Int, older: Int)? {
    var newest = IntervalMaxima(count: count)
    for index in tables.indices.reversed() {
      let table = tables[index]
      // The value is the sequence number plus one, because 0 means that no table covers the interval.
      guard newest.maximum(in: ranges[index]) <= Int(table.smallestSequence.value) else {
        let older = tables[(index + 1)...].firstIndex { $0.overlaps(table) && !$0.isOlder(than: table) }
        return (index, older ?? index)
      }
      newest.raise(ranges[index], to: Int(table.largestSequence.value) + 1)
    }
    return nil
  }
}

/// The maximum of the values set for each of some intervals: both calls cost O(log n).
///
///     node          1                 raised[node]: over all intervals below the node
///             2         3         maxima[node]: of the intervals below it, without values of nodes above it
///          4     5     6     7
struct IntervalMaxima {
  private let leafCount: Int
  private var raised: [Int]
  private var maxima: [Int]

  /// Creates intervals whose values are 0.
  init(count: Int) {
    var leafCount = 1
    while leafCount < count { leafCount *= 2 }
    self.leafCount = leafCount
    raised = Array(repeating: 0, count: 2 * leafCount)
    maxima = raised
  }

  func maximum(in range: Range<Int>) -> Int { maximum(in: range, node: 1, 0..<leafCount) }

  /// Raises the value of each interval of `range` to at least `value`.
  mutating func raise(_ range: Range<Int>, to value: Int) { raise(range, to: value, node: 1, 0..<leafCount) }

  private func maximum(in range: Range<Int>, node: Int, _ covered: Range<Int>) -> Int {
    if range.lowerBound <= covered.lowerBound, covered.upperBound <= range.upperBound { return maxima[node] }
    guard range.overlaps(covered) else { return 0 }
    let middle = (covered.lowerBound + covered.upperBound) / 2
    let left = maximum(in: range, node: 2 * node, covered.lowerBound..<middle)
    let right = maximum(in: range, node: 2 * node + 1, middle..<covered.upperBound)
    return max(raised[node], left, right)
  }

  private mutating func raise(_ range: Range<Int>, to value: Int, node: Int, _ covered: Range<Int>) {
    guard range.overlaps(covered) else { return }
    maxima[node] = max(maxima[node], value)
    if range.lowerBound <= covered.lowerBound, covered.upperBound <= range.upperBound {
      raised[node] = max(raised[node], value)
      return
    }
    let middle = (covered.lowerBound + covered.upperBound) / 2
    raise(range, to: value, node: 2 * node, covered.lowerBound..<middle)
    raise(range, to: value, node: 2 * node + 1, middle..<covered.upperBound)
  }
}
