import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct MergeSourceTests {
  /// A tree whose levels have increasingly old entries: a memtable, two sublevels, and levels 1 and 3.
  private struct Tree {
    let runs = TableRuns()
    var memtables: [MemTable] = []
    var version = Version.empty
    let entries: [TextEntry]

    init(_ random: inout RandomEntries) throws {
      entries = random.sources(1, entries: 700)[0]
      memtables = [TableRuns.memtable(Array(entries[600...])), TableRuns.memtable(Array(entries[550..<600]))]
      let newer = try runs.add(Array(entries[480..<550]), tableSize: 100)
      let older = try runs.add(Array(entries[420..<480]), tableSize: 100)
      let levels = [
        try runs.add(Array(entries[250..<420]), tableSize: 30), .empty,
        try runs.add(Array(entries[..<250]), tableSize: 50),
      ]
      version = Version(levelZero: LevelZero(newer.tables.array + older.tables.array), runs: levels)
    }

    func merge(_ opener: TableOpener) -> MergingIterator<MergeSource> { MergingIterator(memtables, version, opener) }
  }

  @Test(arguments: RandomEntries.Shape.allCases, [ReadPurpose.user, .compaction])
  func `a merge of memtables, tables and levels gives every entry in both directions`(
    shape: RandomEntries.Shape, purpose: ReadPurpose
  ) throws {
    var random = RandomEntries(seed: 3, shape: shape, keyCount: 300)
    let tree = try Tree(&random)
    let sorted = tree.entries.sorted(by: TextEntry.isInOrder)
    var merge = tree.merge(TableOpener(readers: tree.runs, purpose: purpose))
    let seen = try scans(&merge)
    #expect(seen.forward == sorted)
    #expect(seen.backward == sorted.reversed())
  }

  @Test(arguments: RandomEntries.Shape.allCases)
  func `a cursor over memtables and tables sees exactly the visible entries`(shape: RandomEntries.Shape) throws {
    for seed in 0..<3 as Range<UInt64> {
      var random = RandomEntries(seed: seed, shape: shape, keyCount: 80)
      let tree = try Tree(&random)
      let sequence = UInt64(random.random.below(710))
      let model = VisibleIteratorTests.visible(tree.entries, at: sequence, .all)
      let opener = TableOpener(readers: tree.runs, purpose: .user, visible: SequenceNumber(sequence))
      var cursor = VisibleIterator(tree.merge(opener), at: SequenceNumber(sequence))
      var index: Int? = nil
      for step in 0..<500 {
        let target = random.key()
        switch random.random.below(index == nil ? 2 : 12) {
        case 0:
          try target.withByteView { (view) throws(EngineError) in try cursor.seek(view) }
          index = model.indices.first { !model[$0].key.lexicographicallyPrecedes(target) }
        case 1:
          try target.withByteView { (view) throws(EngineError) in try cursor.seekForPrevious(view) }
          index = model.indices.last { !target.lexicographicallyPrecedes(model[$0].key) }
        default:
          let isForward = (step / 50) % 2 == 0 ? !random.random.oneIn(5) : random.random.oneIn(5)
          if isForward { try cursor.next() } else { try cursor.previous() }
          index = index.map { $0 + (isForward ? 1 : -1) }
        }
        index = index.flatMap { model.indices.contains($0) ? $0 : nil }
        let key = cursor.isValid ? cursor.userKey.bytes : nil
        let value = cursor.isValid ? cursor.value.bytes : nil
        try #require(key == index.map { model[$0].key }, "seed \(seed), step \(step)")
        try #require(value == index.map { model[$0].value }, "seed \(seed), step \(step)")
      }
    }
  }
}
