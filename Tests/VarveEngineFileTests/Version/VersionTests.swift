import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

struct VersionTests {
  @Test func `tables that overlap on level 0 stack into sublevels by age`() throws {
    let version = try Make.version([
      0: [
        Make.table(1, "a", "f", sequences: 1...10), Make.table(2, "h", "k", sequences: 1...10),
        Make.table(3, "f", "h", sequences: 11...20), Make.table(4, "m", "z", sequences: 11...20),
        Make.table(5, "a", "b", sequences: 21...30),
      ]
    ])
    let sublevels = version.levelZero.sublevels.map { $0.tables.map(\.number.value) }
    #expect(sublevels == [[1, 2, 4], [5, 3]])
    #expect(version.levelZero.tables.map(\.number.value) == [5, 4, 3, 2, 1])
    #expect(version.levelZero.depth == 2)
  }

  @Test func `an excluded upper bound touches the next table without overlapping it`() throws {
    let left = Make.table(1, "a", "f", sequences: 1...10, excluded: true)
    let right = Make.table(2, "f", "k", sequences: 1...10)
    let version = try Make.version([
      3: [right, left],
      0: [Make.table(3, "a", "f", sequences: 40...50, excluded: true), Make.table(4, "f", "g", sequences: 40...50)],
    ])
    #expect(version.run(3).tables.map(\.number.value) == [1, 2])
    #expect(version.levelZero.depth == 1)
    var found: [UInt64] = []
    try "f".utf8.withBytes { key throws(EngineError) in
      try version.forEachTable(thatMayHold: key) { table throws(EngineError) in
        found.append(table.number.value)
        return true
      }
    }
    #expect(found == [4, 2])
  }

  @Test func `families without tables share one version`() throws {
    var builder = VersionBuilder(.empty)
    try builder.add(Make.table(1, "a", "b"), level: 6)
    let full = try builder.build()
    var emptying = VersionBuilder(full)
    try emptying.delete(FileNumber(1), level: 6)
    #expect(try emptying.build() === Version.empty)
  }

  /// Compares lookups in random levels with a scan of every table.
  @Test(arguments: [0, 3, 9]) func `lookups and overlaps find what a scan finds`(prefixSize: Int)
    throws
  {
    for seed in UInt64(0)..<60 {
      var random = SeededRandom(seed: seed)
      let prefix = [UInt8](repeating: 0x70, count: prefixSize)
      let version = try Self.randomVersion(&random, prefix: prefix)
      for _ in 0..<40 {
        let key = random.oneIn(8) ? Array(prefix.prefix(random.below(10))) : Self.key(random.below(500), prefix)
        let sequence = SequenceNumber(UInt64(random.below(200)))
        var found: [UInt64] = []
        try key.withByteView { view throws(EngineError) in
          try version.forEachTable(thatMayHold: view, at: sequence) { table throws(EngineError) in
            found.append(table.number.value)
            return true
          }
        }
        let expected = (0..<7).flatMap { version.tables(level: $0) }.filter {
          $0.smallestSequence <= sequence && KeyBytes.compare($0.smallestKey, key) <= 0
            && KeyBytes.compare($0.largestKey, key) >= 0
        }
        #expect(found == expected.map(\.number.value), "seed \(seed)")
        let bounds = [Self.key(random.below(500), prefix), Self.key(random.below(500), prefix)]
          .sorted { KeyBytes.compare($0, $1) < 0 }
        let range = UserKeyRange(
          lower: bounds[0], upper: random.oneIn(5) ? nil : bounds[1], upperIsExcluded: random.oneIn(2))
        for level in 0..<7 {
          let model = version.tables(level: level).filter { range.overlaps($0) }.map(\.number)
          #expect(version.overlap(level: level, range).map(\.number) == model, "seed \(seed)")
        }
      }
    }
  }

  static func key(_ index: Int, _ prefix: [UInt8]) -> [UInt8] {
    // Keys have two bytes and, for some, a tail: so the heads of keys are equal after a long prefix, and differ
    // otherwise.
    prefix + [UInt8(index >> 6), UInt8(index & 63)] + (index % 3 == 0 ? [0, 0, 0, 0, 0, 0, 0, UInt8(index & 255)] : [])
  }

  static func randomVersion(_ random: inout SeededRandom, prefix: [UInt8]) throws -> Version {
    var levels: [Int: [TableMetadata]] = [:]
    var number: UInt64 = 1
    for level in 1..<7 {
      var cuts = Set((0..<random.below(30)).map { _ in random.below(500) }).sorted()
      if cuts.count % 2 == 1 { cuts.removeLast() }
      levels[level] = stride(from: 0, to: cuts.count, by: 2).map { index in
        number += 1
        return Make.table(
          number, key(cuts[index], prefix), key(cuts[index + 1], prefix),
          sequences: UInt64(random.below(100))...100, size: 1_000)
      }.sorted { KeyBytes.compare($0.smallestKey, $1.smallestKey) < 0 }
      // The keys do not ascend everywhere with the index, so only a disjoint subset is kept.
      var kept: [TableMetadata] = []
      for table in levels[level] ?? [] {
        guard KeyBytes.compare(table.smallestKey, table.largestKey) <= 0 else { continue }
        if let last = kept.last, KeyBytes.compare(last.largestKey, table.smallestKey) >= 0 { continue }
        kept.append(table)
      }
      levels[level] = kept
    }
    levels[0] = (0..<random.below(12)).compactMap { index in
      let bounds = [random.below(500), random.below(500)].map { key($0, prefix) }
        .sorted { KeyBytes.compare($0, $1) < 0 }
      number += 1
      let first = UInt64(100 + index * 10)
      return Make.table(number, bounds[0], bounds[1], sequences: first...(first + 9), size: 1_000)
    }
    return try Make.version(levels)
  }

  @Test func `the depth below each bound equals a count of the tables one by one`() {
    for seed in 1...UInt64(20) {
      var random = SeededRandom(seed: seed)
      let tables = (0..<40).map { number -> TableMetadata in
        let first = random.below(60)
        let last = first + random.below(random.oneIn(4) ? 40 : 5)
        return Make.table(
          UInt64(100 - number), [UInt8(first)], [UInt8(last)],
          sequences: UInt64(1_000 - number * 10)...UInt64(1_000 - number * 10), size: 100)
      }
      let intervals = LevelZeroIntervals(tables)
      let bounds = (0..<intervals.count).map { _ in random.below(41) - 1 }
      let expected = bounds.indices.map { interval in
        intervals.ranges.indices.count { $0 > bounds[interval] && intervals.ranges[$0].contains(interval) }
      }
      #expect(intervals.depths(below: bounds) == expected, "seed \(seed)")
      let none = [Int](repeating: -1, count: intervals.count)
      #expect(intervals.depths(below: none) == intervals.depths { _ in true }, "seed \(seed)")
    }
  }
}
