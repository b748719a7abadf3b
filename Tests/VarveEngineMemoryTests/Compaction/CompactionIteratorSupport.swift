import EngineTestSupport

@testable import EngineFixtures
@testable import VarveEngine

/// Makes array iterators sources of blocks of four entries for a merge.
extension ArrayIterator: BlockSource {
  static let blockSize = 4

  /// The indexes of the entries in the block that the iterator is in.
  var blockIndices: Range<Int> {
    let start = location / Self.blockSize * Self.blockSize
    return start..<min(start + Self.blockSize, array.entries.count)
  }

  var startsPlainBlock: Bool {
    let block = blockIndices
    guard location == block.lowerBound else { return false }
    let entries = array.entries
    let keys = Set(entries[block].map(\.key))
    let before = block.lowerBound > 0 ? entries[block.lowerBound - 1].key : nil
    let after = block.upperBound < entries.count ? entries[block.upperBound].key : nil
    return entries[block].allSatisfy { $0.kind == .put } && keys.count == block.count
      && !(before.map(keys.contains) ?? false) && !(after.map(keys.contains) ?? false)
  }

  func blockEnds(before limit: InternalKey) -> Bool {
    array.internalKey(blockIndices.upperBound - 1).compare(limit) < 0
  }

  mutating func nextBlock() throws(EngineError) { try move(to: blockIndices.upperBound) }
}

/// A compaction over arrays.
struct ArrayCompaction {
  var sources: [[TextEntry]]
  var snapshots: [UInt64]
  /// The bounds of deeper tables, as separate runs.
  var deeper: [[ClosedRange<String>]] = []
  var zeroes = false
  var lower: [UInt8]?
  var upper: [UInt8]?
  /// The random choice of blocks that are copied whole, or `nil` if none are copied.
  var copiesBlocks: SeededRandom?

  var run: Result {
    var result = Result()
    do {
      try run(&result)
    } catch {
      result.error = error
    }
    return result
  }

  struct Result {
    var entries: [TextEntry] = []
    var copiedBlockCount = 0
    var droppedCount = 0
    var tombstones = RangeTombstoneList.empty
    var error: (any Error)?
  }

  private func run(_ result: inout Result) throws {
    var copies = copiesBlocks
    let runs = deeper.map { SortedRun($0.map { Self.table($0) }) }
    let intervals = SnapshotIntervals(snapshots.map { SequenceNumber($0) })
    let tombstones = tombstones(intervals, runs)
    var iterator = CompactionIterator(
      MergingIterator(sources.map { $0.filter { $0.kind != .rangeDelete } }), snapshots: intervals,
      deeper: DeeperKeys(runs), zeroesSequences: zeroes, upper: upper, tombstones: tombstones.covering,
      merge: MergeFunction(mergeOperator: AppendOperator()))
    if let lower {
      try OwnedBytes(lower).withView { (view) throws(EngineError) in try iterator.seek(view) }
    } else {
      try iterator.seekToFirst()
    }
    while iterator.isValid {
      if iterator.isAtWholeBlock, copies?.oneIn(2) ?? false {
        iterator.withBlock { result.entries += $0.array.entries[$0.blockIndices] }
        result.copiedBlockCount += 1
        try iterator.skipBlock()
      } else {
        result.entries.append(TextEntry(iterator.userKey, iterator.trailer, iterator.value))
        try iterator.next()
      }
    }
    result.droppedCount = Int(iterator.droppedCount)
    result.tombstones = tombstones.kept
  }

  /// Returns the tombstones of the entries that are range tombstones.
  private func tombstones(_ intervals: SnapshotIntervals, _ deeper: [SortedRun]) -> CompactionTombstones {
    var merge = RangeTombstoneMerge()
    for entry in sources.joined() where entry.kind == .rangeDelete {
      let keys = OwnedBytes(entry.key + entry.value)
      merge.add(
        keys.view.slice(0, entry.key.count), keys.view.dropFirst(entry.key.count), SequenceNumber(entry.sequence),
        owner: keys)
    }
    return CompactionTombstones(merge, snapshots: intervals, older: deeper)
  }

  static func table(_ bounds: ClosedRange<String>) -> TableMetadata {
    let smallest = OwnedBytes(Array(bounds.lowerBound.utf8))
    let largest = OwnedBytes(Array(bounds.upperBound.utf8))
    return TableMetadata(
      number: FileNumber(1), fileSize: 1, tableID: 1, smallestKey: smallest.view,
      smallestTrailer: Trailer(SequenceNumber(1), .put), largestKey: largest.view,
      largestTrailer: Trailer(SequenceNumber(1), .put), smallestSequence: SequenceNumber(1),
      largestSequence: SequenceNumber(1), entryCount: 1, rawSize: 1)
  }
}

extension OwnedBytes {
  /// Runs `body` with a view of the bytes, and keeps them alive meanwhile.
  func withView<R, E: Error>(_ body: (ByteView) throws(E) -> R) throws(E) -> R {
    defer { withExtendedLifetime(self) {} }
    return try body(view)
  }
}
