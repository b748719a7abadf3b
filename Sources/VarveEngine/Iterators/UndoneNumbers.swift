/// The numbers of entries of an uncommitted batch that were undone: intervals, ascending, none touching the next.
///
/// An entry has the sequence `SequenceNumber.uncommitted` and its number. Numbers are never given twice, so an entry that
/// was undone can stay where it is: readers pass it.
struct UndoneNumbers: Sendable {
  private var intervals: [Range<UInt64>] = []

  /// Nothing was undone.
  static let none = UndoneNumbers()

  @inline(__always)
  var isEmpty: Bool { intervals.isEmpty }

  /// How many intervals there are.
  var count: Int { intervals.count }

  /// Notes that all entries from a number to before another were undone, which are the newest there are. Some of them may
  /// have been before.
  mutating func append(_ numbers: Range<UInt64>) {
    if numbers.isEmpty { return }
    var lower = numbers.lowerBound
    while let last = intervals.last, last.upperBound >= lower {
      lower = min(lower, last.lowerBound)
      intervals.removeLast()
    }
    intervals.append(lower..<numbers.upperBound)
  }

  /// Whether the entry with a sequence was undone. Complexity: the logarithm of the number of intervals.
  func contains(_ sequence: SequenceNumber) -> Bool { interval(around: sequence) != nil }

  /// The interval that holds the number of an entry, if it was undone. Complexity: as `contains`.
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
