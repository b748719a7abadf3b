/// Cuts overlapping range tombstones into fragments, and keeps for each range of keys one tombstone per snapshot
/// interval.
///
/// A flush or compaction uses it to merge the range tombstones of all its inputs. It sweeps over the sorted bounds:
/// between two neighboring bounds the set of tombstones does not change.
///
/// Complexity: O(n log n) for n tombstones, plus the open intervals at each bound. Memory: 32 bytes for each
/// tombstone, 48 more while their bounds are sorted, and the list.
struct RangeTombstoneMerge {
  /// A tombstone in 32 bytes. Sizes of keys have 16 bits (`Limits.keySizeMaximum`); two views would take half as much
  /// memory again.
  ///
  /// # Safety
  /// The keys belong to one of the owners.
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

  /// The objects that keep the memory of the keys alive.
  private var owners: [AnyObject] = []
  private var tombstones: [Tombstone] = []

  var isEmpty: Bool { tombstones.isEmpty }

  /// Adds a tombstone. `owner` keeps the memory of its keys alive.
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

  /// Returns the fragments. `interval` returns the snapshot interval of a sequence number. All tombstones of the
  /// interval `unsettled` are kept.
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
    /// The tombstones over the current range, newest first.
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

  /// Returns the newest open tombstone of each interval, newest first.
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
