import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests that a scan passes blocks that contain only tombstones without reading them, if no other source has keys
/// there.
struct DeadBlockTests {
  /// Opens a database whose tables stay as they were flushed, with small blocks.
  private static func engine() throws -> Engine {
    var options = SmallEngine.options(memtableSize: 1 << 20)
    options.blockSize = 1 << 10
    options.compactsInBackground = false
    options.deadRunMinimum = 0
    return try Engine.open(at: "/db", options: options, environment: .inMemory())
  }

  /// Scans from the first key, and returns the keys and how many blocks were looked up.
  private static func scan(_ engine: Engine, snapshot: EngineSnapshot? = nil) throws -> (
    keys: [[UInt8]], blocks: UInt64
  ) {
    func count() -> UInt64 { engine.statistics.cache.hitCount + engine.statistics.cache.missCount }
    let before = count()
    var keys: [[UInt8]] = []
    var cursor = try engine.cursor(snapshot: snapshot)
    try cursor.seekToFirst()
    while cursor.isValid {
      keys.append(cursor.keyBytes)
      try cursor.next()
    }
    return (keys, count() - before)
  }

  private static func key(_ index: Int) -> [UInt8] { ObservedEngine.key(index) }

  @Test func `blocks of tombstones alone are not read`() throws {
    let engine = try Self.engine()
    for index in 0..<5_000 { try engine.put(Self.key(index), [1]) }
    try engine.flush()
    let live = engine.snapshot()
    // The 5,000 tombstones are in a separate, newer table, with a live key after them.
    for index in 0..<5_000 { try engine.delete(Self.key(index)) }
    try engine.put(Self.key(6_000), [1])
    try engine.flush()
    let both = try Self.scan(engine)
    #expect(both.keys == [Self.key(6_000)])
    #expect(try Self.scan(engine, snapshot: live).keys.count == 5_000)
    // The older table has keys between the tombstones, so each block has to be scanned.
    #expect(both.blocks > 100)
    try engine.close()

    let other = try Self.engine()
    for index in 0..<5_000 { try other.delete(Self.key(index)) }
    try other.put(Self.key(6_000), [1])
    try other.flush()
    let alone = try Self.scan(other)
    #expect(alone.keys == [Self.key(6_000)])
    #expect(alone.blocks < 10)
    try other.close()
  }

  @Test func `a snapshot that does not see the tombstones sees what they hide`() throws {
    let engine = try Self.engine()
    for index in 0..<1_000 { try engine.put(Self.key(index), [1]) }
    let early = engine.snapshot()
    for index in 0..<1_000 { try engine.delete(Self.key(index)) }
    // One flush writes both versions: for each key, a tombstone above its put.
    try engine.flush()
    #expect(try Self.scan(engine, snapshot: early).keys.count == 1_000)
    #expect(try Self.scan(engine).keys.isEmpty)
    try engine.close()
  }

  /// Keys have many versions that snapshots keep, so that a key continues from one block to the next.
  @Test(arguments: 1...20 as ClosedRange<UInt64>)
  func `any mixture of tombstones, versions and tables reads as its model`(seed: UInt64) throws {
    let engine = try Self.engine()
    var random = SeededRandom(seed: seed)
    var live: Set<Int> = []
    var snapshots: [(EngineSnapshot, Set<Int>)] = []
    for _ in 0..<12 {
      let begin = random.below(3_000)
      let isDelete = random.below(3) > 0
      for index in begin..<begin + random.below(1_500) where random.below(300) > 0 {
        if isDelete {
          try engine.delete(Self.key(index))
        } else {
          try engine.put(Self.key(index), [UInt8](repeating: 1, count: random.below(20)))
        }
        if isDelete { live.remove(index) } else { live.insert(index) }
      }
      if random.below(3) == 0 { snapshots.append((engine.snapshot(), live)) }
      if random.below(3) == 0 { try engine.flush() }
      if random.below(8) == 0 { try engine.compact() }
    }
    for (snapshot, live) in snapshots {
      #expect(try Self.scan(engine, snapshot: snapshot).keys == live.sorted().map(Self.key), "seed \(seed)")
    }
    #expect(try Self.scan(engine).keys == live.sorted().map(Self.key), "seed \(seed)")
    try engine.close()
  }
}
