import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct FlushMergeTests {
  /// Returns the table that `body` filled.
  private static func build(
    _ body: (TableBuilder) throws -> Void
  ) throws -> (entries: [TextEntry], summary: TableSummary) {
    let file = ArrayFile()
    let builder = TableBuilder(file: file, number: FileNumber(1), tableID: 77, options: .small)
    try body(builder)
    let summary = try builder.finish()
    let cache = BlockCache(capacity: 1 << 20)
    let reader = try TableReader.open(file: file, number: FileNumber(1), fileSize: summary.fileSize, cache: cache)
    let iterator = reader.makeIterator(.user)
    try iterator.seekToFirst()
    var entries: [TextEntry] = []
    while let entry = entry(iterator) {
      entries.append(entry)
      try iterator.next()
    }
    return (entries, summary)
  }

  @Test(arguments: 0..<8 as Range<UInt64>)
  func `a flush writes what each reader needs of several memtables`(seed: UInt64) throws {
    var random = RandomEntries(seed: seed, shape: .collections, keyCount: 60)
    let entries = random.sources(1, entries: 400)[0]
    let memtables = [TableRuns.memtable(Array(entries[..<250])), TableRuns.memtable(Array(entries[250...]))]
    let snapshots: [UInt64] = [50, 120, 300, 380]
    let result = try Self.build { builder in
      try unsafe FlushMerge.run(memtables, snapshots: snapshots.map { SequenceNumber($0) }) { _ in
        unsafe .passUnretained(builder)
      }
    }
    for reader in snapshots + [390, 400] {
      #expect(
        VisibleIteratorTests.visible(result.entries, at: reader, .all)
          == VisibleIteratorTests.visible(entries, at: reader, .all), "seed \(seed), reader \(reader)")
    }
    // The deeper entries are not known: for each key and interval, the newest entry is kept, including deletes.
    let kept = Set(
      entries.filter { $0.sequence <= 380 }.map { entry in
        entry.key + [UInt8(snapshots.firstIndex { entry.sequence <= $0 } ?? 9)]
      })
    #expect(result.entries.count == kept.count + entries.filter { $0.sequence > 380 }.count, "seed \(seed)")
    // If there are no deeper entries, no tombstone is the oldest entry of its key.
    let bottom = try Self.build { builder in
      var merge = MergingIterator<MergeSource>(capacity: memtables.count)
      for memtable in memtables { merge.append(memtable) }
      var kept = CompactionIterator(
        merge, snapshots: SnapshotIntervals(snapshots.map { SequenceNumber($0) }), deeper: DeeperKeys([]),
        zeroesSequences: false)
      try kept.seekToFirst()
      while kept.isValid { try kept.move(into: builder) }
    }
    let oldest = Dictionary(bottom.entries.map { ($0.key, $0) }) { $1 }
    #expect(oldest.values.allSatisfy { $0.kind == .put }, "seed \(seed)")
  }

  @Test(arguments: 0..<6 as Range<UInt64>)
  func `a compaction copies blocks and drops rows, and every reader sees the same rows`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    func key(_ number: Int) -> [UInt8] { Array("key/\(100_000 + number)".utf8) }
    // The lower table has ascending puts, and the upper one has clusters of overwrites and deletes.
    let lower = (1...2000).map {
      TextEntry(key: key($0), sequence: UInt64($0), kind: .put, value: [UInt8](repeating: UInt8($0 & 0xff), count: 20))
    }
    var upper: [TextEntry] = []
    for cluster in 0..<5 {
      let start = cluster * 400 + random.below(300)
      for number in start..<start + 30 {
        let isDelete = random.oneIn(3)
        upper.append(
          TextEntry(
            key: key(number), sequence: UInt64(3000 + upper.count), kind: isDelete ? .delete : .put,
            value: isDelete ? [] : [1]))
      }
    }
    let runs = TableRuns()
    let above = try runs.add(upper, tableSize: 60)
    let below = try runs.add(lower, tableSize: 700)
    let opener = TableOpener(readers: runs, purpose: .compaction, buffers: ReadAhead.Options(dropsPages: true))
    let snapshots: [UInt64] = seed % 2 == 0 ? [5000] : [3040, 5000]
    let result = try Self.build { builder in
      var merge = MergingIterator<MergeSource>(capacity: 2)
      merge.append(above, opener)
      merge.append(below, opener)
      var entries = CompactionIterator(
        merge, snapshots: SnapshotIntervals(snapshots.map { SequenceNumber($0) }), deeper: DeeperKeys([]),
        zeroesSequences: seed >= 4)
      try entries.seekToFirst()
      while entries.isValid { try entries.move(into: builder) }
    }
    for reader in snapshots + [6000] {
      func shown(_ entries: [TextEntry]) -> [ModelDatabase.Row] {
        VisibleIteratorTests.visible(entries, at: reader, .all).map { ModelDatabase.Row($0.key, $0.value) }
      }
      #expect(shown(result.entries) == shown(upper + lower), "seed \(seed), reader \(reader)")
    }
    if snapshots.count == 1 { #expect(result.entries.allSatisfy { $0.kind == .put }, "seed \(seed)") }
    #expect(result.summary.properties.copiedBlockCount > 50, "seed \(seed)")
  }
}
