import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of reading many keys by one call: the result must be that of `get` for each key, wherever it is stored.
struct MultiGetTests {
  struct Setting: Sendable, CustomTestStringConvertible {
    var blockSize = 4 << 10
    var bloomBitsPerKey = 10
    var rangeTombstone = false
    var testDescription: String {
      "blocks of \(blockSize), \(bloomBitsPerKey) bits a key\(rangeTombstone ? ", a range tombstone" : "")"
    }
  }

  static let settings = [
    // Tables with one index block, and tables with index partitions.
    Setting(), Setting(blockSize: 1 << 10),
    // Without a filter, every table that may contain a key is read, and most do not contain it.
    Setting(blockSize: 1 << 10, bloomBitsPerKey: 0),
    // A filter with many false positives.
    Setting(blockSize: 1 << 10, bloomBitsPerKey: 1),
    Setting(rangeTombstone: true),
  ]

  static func key(_ number: Int) -> [UInt8] { Array("key \(number % 7) of \(number)".utf8) }

  /// Opens an engine with rows in the last level, in level 0 and in the memtable that hide each other, with deletes;
  /// and with counters.
  static func open(_ setting: Setting) throws -> (Engine, ColumnFamily, EngineSnapshot) {
    var options = EngineOptions()
    options.memoryBudget = 32 << 20
    options.blockSize = setting.blockSize
    options.bloomBitsPerKey = setting.bloomBitsPerKey
    options.compactsInBackground = false
    let engine = try Engine.open(at: "/db", options: options, environment: .inMemory())
    let counters = try engine.createFamily("counters", options: FamilyOptions(mergeOperator: CounterOperator().name))
    var random = SeededRandom(seed: 9)
    func change(_ count: Int, _ round: Int) throws {
      for _ in 0..<count {
        let number = random.below(6_000)
        if random.oneIn(8) {
          try engine.delete(key(number))
        } else {
          try engine.put(key(number), Array("value \(number) of round \(round)".utf8))
        }
        try engine.merge(key(number), CounterOperator.bytes(1), in: counters)
      }
    }
    try change(20_000, 0)
    try engine.compact()
    for round in 1..<5 {
      try change(1_500, round)
      if setting.rangeTombstone, round == 2 { try engine.deleteRange(from: key(7), to: key(70)) }
      try engine.flush()
    }
    let snapshot = engine.snapshot()
    try change(1_000, 5)
    return (engine, counters, snapshot)
  }

  @Test(arguments: settings)
  func `multiGet returns for each key what get returns`(setting: Setting) throws {
    let (engine, counters, snapshot) = try Self.open(setting)
    var random = SeededRandom(seed: 10)
    var foundCount = 0
    var missingCount = 0
    for round in 0..<300 {
      // Some of the keys are in no table, and some occur twice. In every third round they are neighbors.
      let first = random.below(7_000)
      let keys = (0..<random.below(90)).map { Self.key(round % 3 == 0 ? first + 7 * $0 : random.below(7_000)) }
      for family in [nil, counters] {
        for snapshot in [nil, snapshot] {
          let expected = try keys.map { try engine.get($0, in: family, snapshot: snapshot) }
          #expect(try engine.multiGet(keys, in: family, snapshot: snapshot) == expected)
          foundCount += expected.count { $0 != nil }
          missingCount += expected.count { $0 == nil }
        }
      }
    }
    #expect(foundCount > 10_000 && missingCount > 5_000, "\(foundCount) found, \(missingCount) not")
    try engine.close()
  }

  @Test func `neighbors are found together with few lookups of blocks, and random keys with two a step`() throws {
    var options = EngineOptions()
    options.memoryBudget = 32 << 20
    options.blockSize = 1 << 10
    options.compactsInBackground = false
    let engine = try Engine.open(at: "/db", options: options, environment: .inMemory())
    let count = 20_000
    func key(_ number: Int) -> [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) } }
    for number in 0..<count { try engine.put(key(number), Array("value \(number)".utf8)) }
    try engine.compact()
    let version = engine.core.state(of: nil).version
    let tables = (0..<Limits.levelCount).flatMap { version.tables(level: $0) }
    #expect(try tables.contains { try engine.core.tree.reader($0).hasPartitions })
    func lookups<R>(_ body: () throws -> R) rethrows -> (UInt64, R) {
      let before = engine.statistics.cache
      let result = try body()
      let after = engine.statistics.cache
      return (after.hitCount + after.missCount - before.hitCount - before.missCount, result)
    }
    var random = SeededRandom(seed: 11)
    for number in 0..<count { _ = try engine.get(key(number)) }  // The filters are pinned from here on.
    for _ in 0..<20 {
      let first = random.below(count - 100)
      let neighbors = (first..<first + 100).map(key)
      let (apart, expected) = try lookups { try neighbors.map { try engine.get($0) } }
      let (together, values) = try lookups { try engine.multiGet(neighbors) }
      #expect(values == expected && !values.contains(nil))
      #expect(apart >= 200, "a partition and a block for each key")
      #expect(together <= 48, "\(together) lookups of blocks for 100 neighbors, \(apart) by gets")
      let others = (0..<100).map { _ in key(random.below(count)) }
      let (scattered, _) = try lookups { try engine.multiGet(others) }
      #expect(scattered <= 400, "\(scattered) lookups of blocks for 100 random keys")
    }
    try engine.close()
  }

  @Test func `the versions of one key in several blocks are found beside its neighbors`() throws {
    var options = EngineOptions()
    options.memoryBudget = 32 << 20
    options.blockSize = 1 << 10
    options.compactsInBackground = false
    let engine = try Engine.open(at: "/db", options: options, environment: .inMemory())
    let keys = (0..<40).map { [UInt8(0), UInt8($0)] }
    for key in keys { try engine.put(key, [1]) }
    var random = SeededRandom(seed: 12)
    var snapshots: [EngineSnapshot] = []
    for round in 0..<300 {
      try engine.put(keys[20], (0..<24).map { _ in UInt8(random.below(256)) })
      if round % 3 == 0 { try engine.delete(keys[21]) } else { try engine.put(keys[21], [UInt8(round % 251)]) }
      snapshots.append(engine.snapshot())
    }
    try engine.compact()
    let version = engine.core.state(of: nil).version
    let tables = (0..<Limits.levelCount).flatMap { version.tables(level: $0) }
    let blocks = try tables.map { try engine.core.tree.reader($0).footer.dataSize }.reduce(0, +) / 1_100
    #expect(blocks >= 4, "about \(blocks) blocks")
    for snapshot in snapshots.enumerated().filter({ $0.offset % 12 == 0 }).map(\.element) {
      let expected = try keys.map { try engine.get($0, snapshot: snapshot) }
      #expect(try engine.multiGet(keys, snapshot: snapshot) == expected)
      #expect(try engine.multiGet(keys.reversed(), snapshot: snapshot) == expected.reversed())
      // The keys that have versions in several blocks alternate, after a window that has read their blocks.
      let turns = (0..<40).map { 19 + $0 % 4 }
      #expect(try engine.multiGet(turns.map { keys[$0] }, snapshot: snapshot) == turns.map { expected[$0] })
    }
    snapshots = []
    try engine.close()
  }

  @Test func `the settings make tables with one index, with partitions, and with a filter that is often wrong`() throws
  {
    for (setting, hasPartitions) in [(Self.settings[0], false), (Self.settings[1], true)] {
      let (engine, _, snapshot) = try Self.open(setting)
      let version = engine.core.state(of: nil).version
      let tables = (0..<Limits.levelCount).flatMap { version.tables(level: $0) }
      #expect(tables.count >= 5)
      let readers = try tables.map { try engine.core.tree.reader($0) }
      #expect(readers.contains { $0.hasPartitions } == hasPartitions)
      withExtendedLifetime(snapshot) {}
      try engine.close()
    }
    let (engine, _, snapshot) = try Self.open(Self.settings[3])
    let version = engine.core.state(of: nil).version
    let last = try #require((1..<Limits.levelCount).flatMap { version.tables(level: $0) }.last)
    let reader = try engine.core.tree.reader(last)
    let wrong = try (10_000..<11_000).count { number in
      try Self.key(number).withByteView { (key) throws(EngineError) in try reader.mayContain(KeyHash.hash(key)) }
    }
    #expect(wrong > 100, "\(wrong) of 1,000 that it doesn't have")
    withExtendedLifetime(snapshot) {}
    try engine.close()
  }
}
