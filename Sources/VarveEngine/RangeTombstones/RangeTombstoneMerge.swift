/// Cuts range tombstones that overlap into fragments, and keeps of each range of keys one tombstone for
/// each snapshot interval: what a flush or compaction needs of all its inputs'.
///
/// A sweep over the bounds: between two neighbouring bounds the set of tombstones is the same.
///
/// Complexity: O(n log n) for n tombstones, and for each bound the intervals that are open there. Memory: 32 bytes for
/// each tombstone, 48 more while their bounds are sorted, and the list.
struct RangeTombstoneMerge {
  /// Sizes of keys have 16 bits (`Limits.keySizeMaximum`): two views would take half as much again.
  ///
  /// # Safety
  /// The keys are those of an owner.
  @safe
  private struct Tombstone {
    private let startBase: UnsafeRawPointer
    private let endBase: UnsafeRawPointer
    private let startSize: UInt16
    private let endSize: UInt16
    let sequence: UInt64

    init(_ start: ByteView, _ end: ByteView, _ sequence: UInt64) {
      unsafe startBase = start.base
      unsafe endBase = end.base
      startSize = UInt16(start.count)
      endSize = UInt16(end.count)
      self.sequence = sequence
    }

    var start: ByteView { unsafe ByteView(base: startBase, count: Int(startSize)) }
    var end: ByteView { unsafe ByteView(base: endBase, count: Int(endSize)) }
  }

  /// Keep the memory of the keys alive.
  private var owners: [AnyObject] = []
  private var tombstones: [Tombstone] = []

  var isEmpty: Bool { tombstones.isEmpty }

  /// Adds one. `owner` keeps its keys.
  mutating func add(_ start: ByteView, _ end: ByteView, _ sequence: SequenceNumber, owner: AnyObject) {
    if owners.last !== owner { owners.append(owner) }
    tombstones.append(Tombstone(start, end, sequence.value))
  }

  mutating func add(_ list: RangeTombstoneList) {
    for index in 0..<list.count {
      for sequence in list.sequences(index) {
        add(list.start(index), list.end(index), SequenceNumber(sequence), owner: list)
      }
    }
  }

  /// The fragments. `interval` says into which snapshot interval a sequence falls; of `unsettled` all are
  /// kept.
  func fragments(interval: (SequenceNumber) -> Int, unsettled: Int) -> RangeTombstoneList {
    if tombstones.isEmpty { return .empty }
    var bounds: [ByteView] = []
    bounds.reserveCapacity(2 * tombstones.count)
    for tombstone in tombstones {
      bounds.append(tombstone.start)
      bounds.append(tombstone.end)
    }
    bounds.sort { $0.compare($1) < 0 }
    let starts = tombstones.indices.sorted { tombstones[$0].start.compare(tombstones[$1].start) < 0 }
    var builder = RangeTombstoneListBuilder()
    /// The tombstones over the range, newest first.
    var open: [Int] = []
    var nextStart = 0
    for index in bounds.indices.dropLast() {
      let lower = bounds[index]
      let upper = bounds[index + 1]
      if lower.compare(upper) == 0 { continue }
      open.removeAll { tombstones[$0].end.compare(lower) <= 0 }
      while nextStart < starts.count, tombstones[starts[nextStart]].start.compare(lower) <= 0 {
        let fresh = starts[nextStart]
        let location = open.firstIndex { tombstones[$0].sequence < tombstones[fresh].sequence } ?? open.count
        open.insert(fresh, at: location)
        nextStart += 1
      }
      let kept = newestOfEach(open, interval: interval, unsettled: unsettled)
      if !kept.isEmpty { builder.append(lower, upper, kept) }
    }
    return RangeTombstoneList(builder)
  }

  /// Of the open tombstones the newest in each interval, newest first.
  private func newestOfEach(
    _ open: [Int], interval: (SequenceNumber) -> Int, unsettled: Int
  ) -> [UInt64] {
    var kept: [UInt64] = []
    var last: Int?
    for index in open {
      let sequence = tombstones[index].sequence
      if kept.last == sequence { continue }
      let location = interval(SequenceNumber(sequence))
      if location == last, location != unsettled { continue }
      last = location
      kept.append(sequence)
    }
    return kept
  }
}
