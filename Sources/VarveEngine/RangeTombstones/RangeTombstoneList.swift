/// Range tombstones of a table, or of a job, cut into fragments: ascending, none overlapping another, each
/// with the sequences of the tombstones over it.
///
///     written    ──────── 7 ────────             fragments   ── 7 ──┬─ 9 7 ─┬── 9 ──
///                       ────── 9 ──────                      a      d      m      q
///                a      d       m     q
///
/// # Invariants
/// 1. Each fragment ends after it begins, and the next one begins at its end or after it.
/// 2. A fragment has at least one sequence; they descend strictly.
///
/// # Safety
/// Views of keys are valid while the list lives.
///
/// # Concurrency
/// Immutable; safe from any thread.
final class RangeTombstoneList: Sendable {
  private let keys: ByteWriter
  private let fragments: [RangeTombstoneFragment]
  private let sequences: [UInt64]

  /// A list that nothing is in.
  static let empty = RangeTombstoneList(RangeTombstoneListBuilder())

  /// Takes over what was put together.
  init(_ builder: consuming RangeTombstoneListBuilder) {
    fragments = builder.fragments
    sequences = builder.sequences
    keys = builder.takeKeys()
  }

  /// How many fragments there are.
  var count: Int { fragments.count }
  var isEmpty: Bool { fragments.isEmpty }
  /// Tombstones, each counted once for each fragment that it is in.
  var tombstoneCount: Int { sequences.count }
  /// What the list takes of memory, about.
  var memorySize: Int {
    96 + keys.capacity + fragments.capacity * MemoryLayout<RangeTombstoneFragment>.stride + sequences.capacity * 8
  }

  func start(_ index: Int) -> ByteView { fragments[index].start(in: keys.view) }
  func end(_ index: Int) -> ByteView { fragments[index].end(in: keys.view) }

  /// The sequences of a fragment, newest first.
  func sequences(_ index: Int) -> ArraySlice<UInt64> { sequences[range(index)] }

  /// Where the sequences of a fragment are.
  private func range(_ index: Int) -> Range<Int> {
    let end = index + 1 < fragments.count ? Int(fragments[index + 1].firstSequence) : sequences.count
    return Int(fragments[index].firstSequence)..<end
  }

  var smallestSequence: SequenceNumber { SequenceNumber(sequences.min() ?? 0) }
  var largestSequence: SequenceNumber { SequenceNumber(sequences.max() ?? 0) }

  /// The first fragment that ends after `key`; `count` if there is none.
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
    let range = range(index)
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

  /// The range around `key`: a fragment, or the gap between two.
  func segment(around key: ByteView, at sequence: SequenceNumber) -> TombstoneSegment {
    let index = firstIndex(endingAfter: key)
    if index < count, start(index).compare(key) <= 0 {
      return TombstoneSegment(sequence: newest(index, at: sequence), lower: start(index), upper: end(index))
    }
    return TombstoneSegment(
      sequence: .zero, lower: index > 0 ? end(index - 1) : nil, upper: index < count ? start(index) : nil)
  }
}

/// Where the keys and sequences of a fragment are: the start among the keys of the list and the end after it, the
/// sequences up to those of the next fragment. Sizes of keys have 16 bits (`Limits.keySizeMaximum`).
struct RangeTombstoneFragment: Sendable {
  fileprivate let keyOffset: Int
  fileprivate let startSize: UInt16
  fileprivate var endSize: UInt16
  fileprivate let firstSequence: UInt32

  fileprivate var endOffset: Int { keyOffset + Int(startSize) }

  @inline(__always)
  fileprivate func start(in keys: ByteView) -> ByteView { keys.slice(keyOffset, endOffset) }
  @inline(__always)
  fileprivate func end(in keys: ByteView) -> ByteView { keys.slice(endOffset, endOffset + Int(endSize)) }
}

/// Puts a list together, fragment by fragment.
///
/// Memory: 24 bytes for each fragment, its keys, and 8 bytes for each further sequence; while the arrays grow, up to
/// twice that.
struct RangeTombstoneListBuilder: ~Copyable {
  // Mapped: with a large batch of range deletes, the keys are some megabytes that a flush needs for moments.
  private var keys = ByteWriter(capacity: 0, mapsLarge: true)
  fileprivate private(set) var fragments: [RangeTombstoneFragment] = []
  fileprivate private(set) var sequences: [UInt64] = []

  init() {}

  var isEmpty: Bool { fragments.isEmpty }
  /// What the list takes of memory, about.
  var memorySize: Int {
    keys.capacity + fragments.capacity * MemoryLayout<RangeTombstoneFragment>.stride + sequences.capacity * 8
  }

  fileprivate consuming func takeKeys() -> ByteWriter { keys }

  /// Adds a fragment after all others; one that continues where the last ended, with the same sequences,
  /// makes that longer.
  ///
  /// Requires: `newSequences` descend strictly and there is one at least; the keys are no views of this list.
  mutating func append(_ start: ByteView, _ end: ByteView, _ newSequences: some Collection<UInt64>) {
    precondition(start.compare(end) < 0 && !newSequences.isEmpty, "a fragment covers something, by some tombstone")
    if let last = fragments.last {
      let order = last.end(in: keys.view).compare(start)
      precondition(order <= 0, "fragments ascend and don't overlap: cut them first")
      if order == 0, sequences[Int(last.firstSequence)...].elementsEqual(newSequences) {
        keys.truncate(to: last.endOffset)
        keys.append(end)
        fragments[fragments.count - 1].endSize = UInt16(end.count)
        return
      }
    }
    fragments.append(
      RangeTombstoneFragment(
        keyOffset: keys.count, startSize: UInt16(start.count), endSize: UInt16(end.count),
        firstSequence: UInt32(sequences.count)))
    sequences.append(contentsOf: newSequences)
    keys.append(start)
    keys.append(end)
  }
}
