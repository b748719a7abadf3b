import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of which range tombstones the outputs of a job get.
struct CompactionTombstonesTests {
  private static func merge(_ naive: NaiveTombstones) -> RangeTombstoneMerge {
    var merge = RangeTombstoneMerge()
    for tombstone in naive.tombstones {
      let keys = OwnedBytes(tombstone.start + tombstone.end)
      merge.add(
        keys.view.slice(0, tombstone.start.count), keys.view.dropFirst(tombstone.start.count),
        SequenceNumber(tombstone.sequence), owner: keys)
    }
    return merge
  }

  /// Returns the tombstones that a table of keys from `lower` to before `upper` gets, read back.
  private static func written(
    _ tombstones: CompactionTombstones, from lower: [UInt8]?, to upper: [UInt8]?
  ) throws -> RangeTombstoneList {
    guard tombstones.hasAny(from: lower, to: upper) else { return .empty }
    let file = ArrayFile()
    let builder = TableBuilder(file: file, number: FileNumber(1), tableID: 7, options: .small)
    tombstones.write(from: lower, to: upper, into: builder)
    let summary = try builder.finish()
    let reader = try TableReader.open(
      file: file, number: FileNumber(1), fileSize: summary.fileSize, cache: BlockCache(capacity: 1 << 20), tableID: 7)
    return try reader.readRangeTombstones()
  }

  @Test(arguments: 0..<60 as Range<UInt64>)
  func `wherever outputs are cut, each table has exactly the range tombstones over its own keys`(
    seed: UInt64
  ) throws {
    var random = SeededRandom(seed: seed)
    var naive = NaiveTombstones()
    for sequence in 1...UInt64(1 + random.below(8)) {
      let (start, end) = NaiveTombstones.range(&random)
      naive.tombstones.append(.init(start: start, end: end, sequence: sequence))
    }
    let snapshots = (1...9 as ClosedRange<UInt64>).filter { $0 == 9 || random.oneIn(3) }
    let tombstones = CompactionTombstones(
      Self.merge(naive), snapshots: SnapshotIntervals(snapshots.map { SequenceNumber($0) }), older: nil)
    let cuts = Set((0..<random.below(5)).map { _ in NaiveTombstones.key(&random) })
      .sorted { $0.lexicographicallyPrecedes($1) }
    for (lower, upper) in zip([nil] + cuts.map { Optional($0) }, cuts.map { Optional($0) } + [nil]) {
      let list = try Self.written(tombstones, from: lower, to: upper)
      for key in NaiveTombstones.allKeys {
        let isInTable =
          !(lower.map { key.lexicographicallyPrecedes($0) } ?? false)
          && (upper.map { key.lexicographicallyPrecedes($0) } ?? true)
        for snapshot in snapshots {
          let found = key.withByteView { list.sequence(covering: $0, at: SequenceNumber(snapshot)) }.value
          let expected = isInTable ? naive.covering(key, at: snapshot) : 0
          #expect(found == expected, "seed \(seed), key \(key) at \(snapshot), table \(lower ?? []) to \(upper ?? [])")
        }
      }
    }
  }

  @Test(arguments: [0, 1, 2])
  func `a range tombstone is kept as long as any deeper level has a table in its range`(level: Int) {
    var naive = NaiveTombstones()
    naive.tombstones = [.init(start: Array("c".utf8), end: Array("m".utf8), sequence: 5)]
    let intervals = SnapshotIntervals([SequenceNumber(9)])
    let merge = Self.merge(naive)
    func kept(_ levels: [ClosedRange<String>]) -> Int {
      let runs = levels.map { SortedRun([ArrayCompaction.table($0)]) }
      return CompactionTombstones(merge, snapshots: intervals, older: runs).kept.count
    }
    var levels = ["a"..."b", "m"..."n", "x"..."z"]
    #expect(kept(levels) == 0)
    levels[level] = "f"..."g"
    #expect(kept(levels) == 1)
  }
}
