/// The range tombstones of a table or a job, cut into fragments that ascend and do not overlap, each with the
/// sequence numbers of the tombstones over it.
///
///     written    ──────── 7 ────────             fragments   ── 7 ──┬─ 9 7 ─┬── 9 ──
///                       ────── 9 ──────                      a      d      m      q
///                a      d       m     q
///
/// # Invariants
/// 1. Each fragment ends after it begins, and the next one begins at or after its end.
/// 2. A fragment has at least one sequence number; they descend strictly.
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

  /// The empty list.
  static let empty = RangeTombstoneList(RangeTombstoneListBuilder())

  /// Creates a list from the fragments of a builder.
  init(_ builder: consuming RangeTombstoneListBuilder) {
    fragments = builder.fragments
    sequences = builder.sequences
    keys = builder.takeKeys()
  }

  /// The number of fragments.
  var count: Int { fragments.count }
  var isEmpty: Bool { fragments.isEmpty }
  /// The number of tombstones, each counted once for each of its fragments.
  var tombstoneCount: Int { sequences.count }
  /// The approximate memory size of the list, in bytes.
  var memorySize: Int {
    96 + keys.capacity + fragments.capacity * MemoryLayout<RangeTombstoneFragment>.stride + sequences.capacity * 8
  }

  func start(_ index: Int) -> ByteView { fragments[index].start(in: keys.view) }
  func end(_ index: Int) -> ByteView { fragments[index].end(in: keys.view) }

  /// Returns the sequence numbers of a fragment, newest first.
  func sequences(_ index: Int) -> ArraySlice<UInt64> { sequences[range(index)] }

  /// Returns the indices of a fragment's sequence numbers.
  private func range(_ index: Int) -> Range<Int> {
    let end = index + 1 < fragments.count ? Int(fragments[index + 1].firstSequence) : sequences.count
    return Int(fragments[index].firstSequence)..<end
  }

  var smallestSequence: SequenceNumber { SequenceNumber(sequences.min() ?? 0) }
  var largestSequence: SequenceNumber { SequenceNumber(sequences.max() ?? 0) }

  /// Returns the index of the first fragment that ends after `key`, or `count` if there is none.
  func firstIndex(endingAfter key: ByteView) -> Int {
    var low = 0
    var high = fragments.count
    while low < high {
      let middle = (low &+ high) >> 1
      if end(middle).compare(key) <= 0 { low = middle &+ 1 } else { high = middle }
    }
    return low
  }

  /// Returns the newest sequence number of a fragment that is visible at `sequence`, or zero if there is none.
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

  /// Returns the sequence number of the newest tombstone over `key` that is visible at `sequence`, or zero if there
  /// is none.
  ///
  /// Complexity: O(log (fragments) + log (sequences of one)).
  func sequence(covering key: ByteView, at sequence: SequenceNumber) -> SequenceNumber {
    let index = firstIndex(endingAfter: key)
    guard index < count, start(index).compare(key) <= 0 else { return .zero }
    return newest(index, at: sequence)
  }

  /// Returns the range around `key`: a fragment, or the gap between two.
  func segment(around key: ByteView, at sequence: SequenceNumber) -> TombstoneSegment {
    let index = firstIndex(endingAfter: key)
    if index < count, start(index).compare(key) <= 0 {
      return TombstoneSegment(sequence: newest(index, at: sequence), lower: start(index), upper: end(index))
    }
    return TombstoneSegment(
      sequence: .zero, lower: index > 0 ? end(index - 1) : nil, upper: index < count ? start(index) : nil)
  }
}

/// The location of a fragment's keys and sequence numbers in its list.
///
/// The end key follows the start key. The sequence numbers extend to those of the next fragment. Sizes of keys have
/// 16 bits (`Limits.keySizeMaximum`).
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

/// Builds a list, fragment by fragment.
///
/// Memory: 24 bytes for each fragment, its keys, and 8 bytes for each further sequence number; up to twice that while
/// the arrays grow.
struct RangeTombstoneListBuilder: ~Copyable {
  // The keys are in mapped memory: with a large batch of range deletes, they are some megabytes that a flush needs
  // only briefly.
  private var keys = ByteWriter(capacity: 0, mapsLarge: true)
  fileprivate private(set) var fragments: [RangeTombstoneFragment] = []
  fileprivate private(set) var sequences: [UInt64] = []

  init() {}

  var isEmpty: Bool { fragments.isEmpty }
  /// The approximate memory size of the list, in bytes.
  var memorySize: Int {
    keys.capacity + fragments.capacity * MemoryLayout<RangeTombstoneFragment>.stride + sequences.capacity * 8
  }

  fileprivate consuming func takeKeys() -> ByteWriter { keys }

  /// Adds a fragment after all others. A fragment that begins where the last one ended, with the same sequence
  /// numbers, extends the last one.
  ///
  /// Requires that `newSequences` is not empty and descends strictly, and that the keys are not views of this list.
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
