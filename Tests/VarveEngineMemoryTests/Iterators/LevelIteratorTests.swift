import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct LevelIteratorTests {
  /// A run of tables that are cut between keys, and the entries of each.
  private struct Level {
    var run = SortedRun.empty
    var arrays: [FileNumber: EntryArray] = [:]
    var sorted: [TextEntry] = []

    /// Creates a level. If `emptyTables` is true, some tables have bounds but no entries.
    init(_ entries: [TextEntry], _ random: inout SeededRandom, emptyTables: Bool) {
      sorted = entries.sorted(by: TextEntry.isInOrder)
      var tables: [TableMetadata] = []
      var start = 0
      while start < sorted.count {
        var end = min(sorted.count, start + 1 + random.below(12))
        while end < sorted.count, sorted[end].key == sorted[end - 1].key { end += 1 }
        let number = FileNumber(UInt64(tables.count + 1))
        tables.append(Self.table(number, sorted[start], sorted[end - 1]))
        let isEmpty = emptyTables && random.oneIn(3)
        arrays[number] = EntryArray(isEmpty ? [] : Array(sorted[start..<end]))
        if isEmpty { sorted.removeSubrange(start..<end) } else { start = end }
      }
      run = SortedRun(tables)
    }

    private static func table(_ number: FileNumber, _ first: TextEntry, _ last: TextEntry) -> TableMetadata {
      let smallest = OwnedBytes(first.key)
      let largest = OwnedBytes(last.key)
      return TableMetadata(
        number: number, fileSize: 1, tableID: 1, smallestKey: smallest.view, smallestTrailer: first.trailer,
        largestKey: largest.view, largestTrailer: last.trailer, smallestSequence: SequenceNumber(1),
        largestSequence: SequenceNumber(1), entryCount: 1, rawSize: 1)
    }
  }

  @Test func `a level without tables is empty`() throws {
    var level = LevelIterator<ArrayIterator>(.empty, [:])
    try level.seekToFirst()
    #expect(entry(level) == nil)
    try level.seekToLast()
    #expect(entry(level) == nil)
  }

  @Test(arguments: RandomEntries.Shape.allCases, [false, true])
  func `a level scans like a sorted array under random moves`(
    shape: RandomEntries.Shape, emptyTables: Bool
  ) throws {
    for seed in 0..<4 as Range<UInt64> {
      var entries = RandomEntries(seed: seed, shape: shape, keyCount: 120)
      let all = entries.sources(1, entries: 250)[0]
      let level = Level(all, &entries.random, emptyTables: emptyTables)
      let model = EntryArray(level.sorted)
      var iterator = LevelIterator<ArrayIterator>(level.run, level.arrays)
      var index: Int? = nil
      for step in 0..<600 {
        let target = OwnedBytes(entries.key())
        let location = InternalKey(target.view, Trailer(seek: SequenceNumber(UInt64(entries.random.below(252)))))
        switch entries.random.below(index == nil ? 4 : 30) {
        case 0:
          try iterator.seekToFirst()
          index = 0
        case 1:
          try iterator.seekToLast()
          index = level.sorted.count - 1
        case 2:
          try iterator.seek(location)
          index = model.firstIndex(notBefore: location)
        case 3:
          try iterator.seekBefore(location)
          index = model.firstIndex(notBefore: location) - 1
        default:
          let isForward = (step / 60) % 2 == 0 ? !entries.random.oneIn(5) : entries.random.oneIn(5)
          if isForward { try iterator.next() } else { try iterator.previous() }
          index = index.map { $0 + (isForward ? 1 : -1) }
        }
        index = index.flatMap { level.sorted.indices.contains($0) ? $0 : nil }
        let expected = index.map { level.sorted[$0] }
        try #require(entry(iterator) == expected, "seed \(seed), step \(step)")
      }
    }
  }

  @Test func `a table that can't be opened is an error of the move that reaches it`() throws {
    let names: [String] = ["a#1,put=1", "b#2,put=2", "c#3,put=3"]
    var random = SeededRandom(seed: 1)
    let first = Level(names.prefix(1).compactMap { TextEntry($0) }, &random, emptyTables: false)
    let rest = Level(names.dropFirst().compactMap { TextEntry($0) }, &random, emptyTables: false)
    let missing = try #require(rest.run.tables.first)
    let other = TableMetadata(
      number: FileNumber(99), fileSize: 1, tableID: 1, smallestKey: missing.smallest,
      smallestTrailer: missing.smallestTrailer, largestKey: missing.largest, largestTrailer: missing.largestTrailer,
      smallestSequence: SequenceNumber(1), largestSequence: SequenceNumber(1), entryCount: 1, rawSize: 1)
    var iterator = LevelIterator<ArrayIterator>(SortedRun(first.run.tables + [other]), first.arrays)
    try iterator.seekToFirst()
    #expect(entry(iterator)?.description == "a#1,put=1")
    #expect(throws: EngineError.self) { try iterator.next() }
    #expect(entry(iterator) == nil)
    try iterator.seekToFirst()
    #expect(entry(iterator)?.description == "a#1,put=1")
  }
}
