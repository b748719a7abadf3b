import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the remembered order of a level's tables: it must be that of a sort of all of them, and its cost must be
/// in proportion to the changes.
struct LevelSeedsTests {
  /// Two levels of tables: each slot of level 5 has the keys of four slots of level 6.
  private struct Levels {
    var version = Version.empty
    var random: SeededRandom
    let count: Int
    private var tables: [Int: [Int: TableMetadata]] = [5: [:], 6: [:]]
    private var lastNumber: UInt64 = 0

    init(seed: UInt64, count: Int) throws {
      random = SeededRandom(seed: seed)
      self.count = count
      var builder = VersionBuilder(.empty)
      for slot in 0..<count { try builder.add(table(5, slot), level: 5) }
      for slot in 0..<(4 * count) { try builder.add(table(6, slot), level: 6) }
      version = try builder.build()
    }

    static func key(_ index: Int) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: index >> (24 - 8 * $0)) } }

    private mutating func table(_ level: Int, _ slot: Int) -> TableMetadata {
      lastNumber += 1
      let width = level == 5 ? 40 : 10
      // There are few sizes, so that ratios tie.
      let table = Make.table(
        lastNumber, Self.key(slot * width), Self.key(slot * width + random.below(width)), sequences: 1...1,
        size: UInt64(1 + random.below(3)) * 100, tombstones: random.oneIn(8) ? 900 : 0,
        shadowed: random.oneIn(3) ? UInt64(random.below(1_000)) : nil)
      tables[level]?[slot] = table
      return table
    }

    /// Removes the table of a slot, or adds one.
    mutating func change(_ level: Int, _ slot: Int) throws {
      var builder = VersionBuilder(version)
      if let old = tables[level]?.removeValue(forKey: slot) {
        try builder.delete(old.number, level: level)
      } else {
        try builder.add(table(level, slot), level: level)
      }
      version = try builder.build()
    }

    mutating func changeSome() throws {
      let level = random.oneIn(2) ? 5 : 6
      try change(level, random.below(level == 5 ? count : 4 * count))
    }

    /// The bytes of level 6 under each table of level 5, computed from all tables.
    var overlaps: [UInt64] {
      let lower = Array(version.run(6).tables)
      return version.run(5).tables.map { upper in
        lower.reduce(0) { $0 + (upper.endsBefore($1) || $1.endsBefore(upper) ? 0 : $1.fileSize) }
      }
    }

    func naiveOrder(_ overlaps: [UInt64]) -> [Int] {
      let ratios = zip(overlaps, version.run(5).tables).map { Double($0) / Double(max($1.compensatedSize, 1)) }
      return ratios.indices.sorted { ratios[$0] != ratios[$1] ? ratios[$0] < ratios[$1] : $0 < $1 }
    }

    func naiveTombstones(_ overlaps: [UInt64]) -> [Int] {
      let tables = version.run(5).tables
      return zip(tables.indices, overlaps).filter {
        let (table, size) = (tables[$0], tables[$0].fileSize)
        return table.isMostlyTombstones && $1 <= size * 10 || Double(table.shadowedSize ?? 0) / Double(size + $1) >= 0.5
      }.map(\.0)
    }
  }

  private static func order(_ seeds: inout LevelSeeds, _ version: Version) -> [Int] {
    var order: [Int] = []
    let found: Int? = seeds.first(level: 5, of: version) {
      order.append($0)
      return nil
    }
    #expect(found == nil)
    return order
  }

  @Test(arguments: 1...TestScale.count(3))
  func `after random edits of both levels the order of seeds is that of a sort of all tables`(_ seed: Int) throws {
    var levels = try Levels(seed: UInt64(seed), count: 300)
    var seeds = LevelSeeds()
    var tombstoneCount = 0
    for step in 0..<20 {
      for _ in 0..<(1 + levels.random.below(6)) { try levels.changeSome() }
      let overlaps = levels.overlaps
      try #require(Self.order(&seeds, levels.version) == levels.naiveOrder(overlaps), "seed \(seed), step \(step)")
      var tombstones: [Int] = []
      let found: Int? = seeds.firstTombstones(level: 5, of: levels.version, share: 0.5) {
        tombstones.append($0)
        return nil
      }
      #expect(found == nil)
      try #require(tombstones == levels.naiveTombstones(overlaps), "seed \(seed), step \(step)")
      tombstoneCount += tombstones.count
    }
    #expect(levels.version.run(5).chunks.count > 1 && tombstoneCount > 0)
  }

  @Test func `a pick after an edit searches the overlap of the tables in the chunks that changed`() throws {
    var levels = try Levels(seed: 7, count: 7_500)
    var seeds = LevelSeeds()
    let first = seeds.first(level: 5, of: levels.version) { $0 }
    #expect(first != nil)
    #expect(seeds.examinedCount == 7_500)
    for step in 0..<50 {
      let before = seeds.examinedCount
      try levels.change(step % 2 == 0 ? 5 : 6, 7_000 - step * 130)
      #expect(seeds.first(level: 5, of: levels.version) { $0 } != nil)
      // Only the chunk that changed, or those above one that did, may be examined, with a neighbor that it was merged
      // with.
      #expect(seeds.examinedCount - before <= 2 * TableChunk.countMaximum, "step \(step)")
      #expect(seeds.examinedCount > before, "step \(step)")
    }
    let before = seeds.examinedCount
    #expect(seeds.first(level: 5, of: levels.version) { $0 } != nil)
    #expect(seeds.examinedCount == before)
  }

  @Test func `levels without tables are forgotten`() throws {
    var levels = try Levels(seed: 1, count: 10)
    var seeds = LevelSeeds()
    #expect(seeds.first(level: 5, of: levels.version) { $0 } != nil)
    #expect(!seeds.isEmpty)
    for slot in 0..<10 { try levels.change(5, slot) }
    #expect(seeds.first(level: 5, of: levels.version) { $0 } == nil)
    #expect(seeds.isEmpty)
  }
}
