/// The positions of the commit's sequence in entries of an uncommitted batch, by the number of the entry.
struct PendingStamps: Sendable {
  /// The positions, ascending by number.
  private var entries: [(number: UInt64, location: StampLocation)] = []

  /// Adds the position in the newest entry.
  mutating func append(_ location: StampLocation, number: UInt64) { entries.append((number, location)) }

  /// Removes the entries from a number on.
  mutating func removeAll(from number: UInt64) {
    while let newest = entries.last, newest.number >= number { entries.removeLast() }
  }

  /// Removes the entries that are not among `numbers`.
  mutating func keep(_ numbers: Set<UInt64>) { entries.removeAll { !numbers.contains($0.number) } }

  /// Returns the position in an entry, or `nil` if the entry gets no sequence. Complexity: O(log n).
  func location(of number: UInt64) -> StampLocation? {
    if entries.isEmpty { return nil }
    var low = 0
    var high = entries.count
    while low < high {
      let middle = (low + high) / 2
      if entries[middle].number < number { low = middle + 1 } else { high = middle }
    }
    return low < entries.count && entries[low].number == number ? entries[low].location : nil
  }
}
