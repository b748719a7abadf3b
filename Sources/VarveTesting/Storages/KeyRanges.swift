internal import Varve

/// A sorted set of key ranges that neither overlap nor touch.
struct KeyRanges: Sendable {
  private(set) var ranges: [StorageRange] = []

  var isEmpty: Bool { ranges.isEmpty }

  func contains(_ key: [UInt8]) -> Bool {
    let index = firstIndex(endingAfter: key)
    return index < ranges.count && !key.lexicographicallyPrecedes(ranges[index].lower)
  }

  /// Adds a range and merges it with those that it overlaps or touches.
  mutating func insert(_ range: StorageRange) {
    guard !range.isEmpty else { return }
    var joined = range
    // Ranges that end before the new one begins are kept; a range that ends where the new one begins is merged.
    var first = 0
    while first < ranges.count, let upper = ranges[first].upper, upper.lexicographicallyPrecedes(range.lower) {
      first += 1
    }
    var last = first
    while last < ranges.count, range.upper.map({ !$0.lexicographicallyPrecedes(ranges[last].lower) }) ?? true {
      if ranges[last].lower.lexicographicallyPrecedes(joined.lower) { joined.lower = ranges[last].lower }
      if let upper = joined.upper {
        joined.upper = ranges[last].upper.map { upper.lexicographicallyPrecedes($0) ? $0 : upper }
      }
      last += 1
    }
    ranges.replaceSubrange(first..<last, with: [joined])
  }

  private func firstIndex(endingAfter key: [UInt8]) -> Int {
    var low = 0
    var high = ranges.count
    while low < high {
      let middle = (low + high) / 2
      let endsAfter = ranges[middle].upper.map { key.lexicographicallyPrecedes($0) } ?? true
      if endsAfter { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
