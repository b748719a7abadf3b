/// Range tombstones of a table, or of a job, cut into fragments: ascending, none overlapping another, each
/// with the sequences of the tombstones over it.
///
///     written    ──────── 7 ────────             fragments   ── 7 ──┬─ 9 7 ─┬── 9 ──
///                       ────── 9 ──────                      a      d      m      q
///                a      d       m     q
///
/// # Invariants
/// 1. Each fragment ends after it begins, and the next one begins at its end or behind it.
/// 2. A fragment has at least one sequence; they descend strictly.
///
/// # Safety
/// Views of keys are valid while the list lives.
///
/// # Concurrency
/// Immutable; safe from any thread.
final class RangeTombstoneList: Sendable {
  /// Where a fragment's keys and sequences are.
  private struct Fragment: Sendable {
    let startOffset: Int
    let startCount: Int
    let endOffset: Int
    let endCount: Int
    let sequences: Range<Int>
  }

  private let keys: ByteWriter
  private let fragments: [Fragment]
  private let sequences: [UInt64]

  /// A list that nothing is in.
  static let empty = RangeTombstoneList(RangeTombstoneListBuilder())

  init(_ builder: consuming RangeTombstoneListBuilder) {
    fragments = builder.places.map {
      Fragment(
        startOffset: $0.startOffset, startCount: $0.startCount, endOffset: $0.endOffset, endCount: $0.endCount,
        sequences: $0.sequences)
    }
    sequences = builder.sequences
    keys = builder.takeKeys()
  }

  /// How many fragments there are.
  var count: Int { fragments.count }
  var isEmpty: Bool { fragments.isEmpty }
  /// Tombstones, each counted once for each fragment that it is in.
  var tombstoneCount: Int { sequences.count }
  /// What the list takes of memory, about.
  var memorySize: Int { 96 + keys.capacity + fragments.count * MemoryLayout<Fragment>.stride + sequences.count * 8 }

  func start(_ index: Int) -> ByteView {
    let fragment = fragments[index]
    return keys.view.slice(fragment.startOffset, fragment.startOffset + fragment.startCount)
  }

  func end(_ index: Int) -> ByteView {
    let fragment = fragments[index]
    return keys.view.slice(fragment.endOffset, fragment.endOffset + fragment.endCount)
  }

  /// The sequences of a fragment, newest first.
  func sequences(_ index: Int) -> ArraySlice<UInt64> { sequences[fragments[index].sequences] }

  var smallestSequence: SequenceNumber { SequenceNumber(sequences.min() ?? 0) }
  var largestSequence: SequenceNumber { SequenceNumber(sequences.max() ?? 0) }

  /// The first fragment that ends behind `key`; `count` if there is none.
  func firstIndex(endingAfter key: ByteView) -> Int {
    var low = 0
    var high = fragments.count
    while low < high {
      let middle = (low &+ high) >> 1
      if end(middle).compare(key) <= 0 { low = middle &+ 1 } else { high = middle }
    }
    return low
  }

  /// The newest sequence of a fragment that a reader at `sequence` sees; zero if there is none.
  func newest(_ index: Int, at sequence: SequenceNumber) -> SequenceNumber {
    let range = fragments[index].sequences
    var low = range.lowerBound
    var high = range.upperBound
    while low < high {
      let middle = (low &+ high) >> 1
      if sequences[middle] > sequence.value { low = middle &+ 1 } else { high = middle }
    }
    return low < range.upperBound ? SequenceNumber(sequences[low]) : .zero
  }

  /// The newest tombstone over `key` that a reader at `sequence` sees; zero if there is none.
  ///
  /// Complexity: O(log (fragments) + log (sequences of one)).
  func sequence(covering key: ByteView, at sequence: SequenceNumber) -> SequenceNumber {
    let index = firstIndex(endingAfter: key)
    guard index < count, start(index).compare(key) <= 0 else { return .zero }
    return newest(index, at: sequence)
  }

  /// The stretch around `key`: a fragment, or the gap between two.
  func segment(around key: ByteView, at sequence: SequenceNumber) -> TombstoneSegment {
    let index = firstIndex(endingAfter: key)
    if index < count, start(index).compare(key) <= 0 {
      return TombstoneSegment(sequence: newest(index, at: sequence), lower: start(index), upper: end(index))
    }
    return TombstoneSegment(
      sequence: .zero, lower: index > 0 ? end(index - 1) : nil, upper: index < count ? start(index) : nil)
  }
}

/// Puts a list together, fragment by fragment.
struct RangeTombstoneListBuilder: ~Copyable {
  struct Place {
    let startOffset: Int
    let startCount: Int
    var endOffset: Int
    var endCount: Int
    let sequences: Range<Int>
  }

  private var keys = ByteWriter(capacity: 0)
  private(set) var places: [Place] = []
  private(set) var sequences: [UInt64] = []

  init() {}

  var isEmpty: Bool { places.isEmpty }
  /// What the list takes of memory, about.
  var memorySize: Int { keys.capacity + places.count * MemoryLayout<Place>.stride + sequences.count * 8 }

  consuming func takeKeys() -> ByteWriter { keys }

  /// Adds a fragment behind all others; one that goes on where the last ended, with the same sequences,
  /// makes that longer.
  ///
  /// Requires: `newSequences` descend strictly and there is one at least; the keys are no views of this list.
  mutating func append(_ start: ByteView, _ end: ByteView, _ newSequences: some Collection<UInt64>) {
    precondition(start.compare(end) < 0 && !newSequences.isEmpty, "a fragment covers something, by some tombstone")
    if let last = places.last {
      let lastEnd = keys.view.slice(last.endOffset, last.endOffset + last.endCount)
      let order = lastEnd.compare(start)
      precondition(order <= 0, "fragments ascend and don't overlap: cut them first")
      if order == 0, sequences[last.sequences].elementsEqual(newSequences) {
        places[places.count - 1].endOffset = keys.count
        places[places.count - 1].endCount = end.count
        keys.append(end)
        return
      }
    }
    let first = sequences.count
    sequences.append(contentsOf: newSequences)
    let startOffset = keys.count
    keys.append(start)
    let endOffset = keys.count
    keys.append(end)
    places.append(
      Place(
        startOffset: startOffset, startCount: start.count, endOffset: endOffset, endCount: end.count,
        sequences: first..<sequences.count))
  }
}
