import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of repeated compactions of a random tree, against what each reader saw before.
struct CompactionModelTests {
  /// A tree of levels of entries, from the newest level to the oldest, and its readers.
  private struct ModelTree {
    var random: SeededRandom
    var levels: [[TextEntry]]
    var snapshots: Set<UInt64> = []
    var sequence: UInt64 = 0
    /// For each key that is single-deleted, whether its newest entry is a put, so that the contract is kept.
    var singles: [[UInt8]: Bool] = [:]

    init(seed: UInt64, levelCount: Int) {
      random = SeededRandom(seed: seed)
      levels = .init(repeating: [], count: levelCount)
    }

    mutating func write() {
      sequence += 1
      let number = random.below(24)
      let key = Array("k\(number)".utf8)
      let value = Array("v\(sequence)".utf8)
      if number % 3 == 0 {
        // The key is put once, single-deleted once, put once, and so on.
        let isThere = singles[key] ?? false
        singles[key] = !isThere
        levels[0].append(
          TextEntry(key: key, sequence: sequence, kind: isThere ? .singleDelete : .put, value: isThere ? [] : value))
      } else {
        let isDelete = random.oneIn(3)
        levels[0].append(
          TextEntry(key: key, sequence: sequence, kind: isDelete ? .delete : .put, value: isDelete ? [] : value))
      }
    }

    /// Returns the bounds of a level's tables, which have a few entries each and are cut between keys.
    mutating func tables(_ level: Int) -> [ClosedRange<String>] {
      let keys = Set(levels[level].map(\.key)).sorted { $0.lexicographicallyPrecedes($1) }
      var result: [ClosedRange<String>] = []
      var start = 0
      while start < keys.count {
        let end = min(keys.count - 1, start + random.below(4))
        result.append(String(decoding: keys[start], as: UTF8.self)...String(decoding: keys[end], as: UTF8.self))
        start = end + 1
      }
      return result
    }

    func view(at reader: UInt64) -> [TextEntry] {
      VisibleIteratorTests.visible(levels.flatMap { $0 }, at: reader, .all).map {
        TextEntry(key: $0.key, sequence: 0, kind: .put, value: $0.value)
      }
    }
  }

  @Test(arguments: 0..<60 as Range<UInt64>)
  func `every reader sees the same content after each of many compactions`(seed: UInt64) throws {
    var tree = ModelTree(seed: seed, levelCount: 4)
    for step in 0..<60 {
      let jobStart = tree.sequence
      for _ in 0..<tree.random.below(12) { tree.write() }
      // The job may have started before the last writes, so that it contains entries newer than its start.
      let visible = tree.random.oneIn(3) ? jobStart : tree.sequence
      if tree.random.oneIn(2) { tree.snapshots.insert(UInt64(tree.random.below(Int(visible) + 1))) }
      tree.snapshots = tree.snapshots.filter { $0 <= visible }
      if tree.random.oneIn(3) { tree.snapshots = tree.snapshots.filter { _ in tree.random.oneIn(2) } }
      let readers = tree.snapshots.sorted() + Array(visible...tree.sequence + 1)
      let before = readers.map { tree.view(at: $0) }
      let upper = tree.random.below(3)
      let output = min(upper + 1, 3)
      let below = (output + 1..<4).map { tree.tables($0) }
      var compaction = ArrayCompaction(
        sources: [tree.levels[upper], tree.levels[output]], snapshots: tree.snapshots.union([visible]).sorted())
      compaction.deeper = below
      compaction.zeroes = below.allSatisfy(\.isEmpty) && tree.random.oneIn(2)
      compaction.copiesBlocks = tree.random.oneIn(2) ? SeededRandom(seed: seed) : nil
      let inputCount = tree.levels[upper].count + tree.levels[output].count
      let result = compaction.run
      try #require(result.error == nil, "seed \(seed), step \(step)")
      tree.levels[upper] = []
      tree.levels[output] = result.entries
      try #require(inputCount - result.entries.count == result.droppedCount, "seed \(seed), step \(step)")
      let isSorted = zip(result.entries, result.entries.dropFirst()).allSatisfy { TextEntry.isInOrder($0, $1) }
      try #require(isSorted, "seed \(seed), step \(step)")
      for (reader, view) in zip(readers, before) {
        try #require(tree.view(at: reader) == view, "seed \(seed), step \(step), reader \(reader)")
      }
    }
  }

  @Test(arguments: 0..<40 as Range<UInt64>)
  func `without snapshots and deeper tables one put of each live key is left`(seed: UInt64) throws {
    var tree = ModelTree(seed: seed, levelCount: 2)
    for _ in 0..<150 { tree.write() }
    for entry in tree.levels[0] where tree.random.oneIn(2) && entry.sequence < 100 { tree.levels[1].append(entry) }
    // For each key, a level is newer than the one below it.
    let oldest = Dictionary(tree.levels[1].map { ($0.key, $0.sequence) }, uniquingKeysWith: max)
    let (below, above) = (tree.levels[0].filter { $0.sequence <= oldest[$0.key] ?? 0 }, tree.levels[0])
    let upper = above.filter { $0.sequence > oldest[$0.key] ?? 0 }
    var compaction = ArrayCompaction(sources: [upper, below], snapshots: [tree.sequence])
    compaction.zeroes = true
    let result = compaction.run
    #expect(result.entries == tree.view(at: tree.sequence), "seed \(seed)")
  }

  @Test(arguments: 0..<40 as Range<UInt64>)
  func `no entry of a history of puts and deletes is kept without a reader that needs it`(seed: UInt64) throws {
    // If any entry of the output is removed, a reader's result changes.
    var random = SeededRandom(seed: seed)
    let entries = (1...60).map { sequence in
      let isDelete = random.oneIn(2)
      return TextEntry(
        key: Array("k\(random.below(8))".utf8), sequence: UInt64(sequence), kind: isDelete ? .delete : .put,
        value: isDelete ? [] : Array("v\(sequence)".utf8))
    }
    let snapshots = Set((0..<random.below(6)).map { _ in UInt64(random.below(60)) }).union([60]).sorted()
    let output = ArrayCompaction(sources: [entries], snapshots: snapshots).run.entries
    for index in output.indices {
      var fewer = output
      fewer.remove(at: index)
      let isNoticed = snapshots.contains {
        VisibleIteratorTests.visible(fewer, at: $0, .all) != VisibleIteratorTests.visible(output, at: $0, .all)
      }
      #expect(isNoticed, "seed \(seed): \(output[index]) at \(snapshots)")
    }
  }
}
