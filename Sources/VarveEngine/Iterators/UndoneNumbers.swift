/// The numbers of the undone entries of an uncommitted batch, as intervals that ascend and do not touch.
///
/// The sequence number of an entry is `SequenceNumber.uncommitted` plus the entry's number. Numbers are never reused,
/// so an undone entry can stay in the memtable: readers skip it.
struct UndoneNumbers: Sendable {
  private var intervals: [Range<UInt64>] = []

  /// The empty set, for a batch in which nothing was undone.
  static let none = UndoneNumbers()

  @inline(__always)
  var isEmpty: Bool { intervals.isEmpty }

  /// The number of intervals.
  var count: Int { intervals.count }

  /// Adds the entries in a range of numbers, which must be the newest entries. Some of them may have been undone
  /// before.
  mutating func append(_ numbers: Range<UInt64>) {
    if numbers.isEmpty { return }
    var lower = numbers.lowerBound
    while let last = intervals.last, last.upperBound >= lower {
      lower = min(lower, last.lowerBound)
      intervals.removeLast()
    }
    intervals.append(lower..<numbers.upperBound)
  }

  /// Returns whether the entry with a sequence number was undone. Complexity: O(log n) for n intervals.
  func contains(_ sequence: SequenceNumber) -> Bool { interval(around: sequence) != nil }

  /// Returns the interval that contains the number of an entry, or nil if the entry was not undone. Complexity: O(log
  /// n) for n intervals.
  func interval(around sequence: SequenceNumber) -> Range<UInt64>? {
    guard sequence >= .uncommitted else { return nil }
    let number = sequence.value - SequenceNumber.uncommitted.value
    var low = 0
    var high = intervals.count
    while low < high {
      let middle = (low + high) / 2
      if intervals[middle].upperBound <= number { low = middle + 1 } else { high = middle }
    }
    return low < intervals.count && intervals[low].lowerBound <= number ? intervals[low] : nil
  }
}
