import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of what an engine says about the space that it takes.
struct EngineSpaceTests {
  private static func fill(_ engine: Engine) throws {
    for index in 0..<2_000 { try engine.put(ObservedEngine.key(index), [UInt8](repeating: 1, count: 100)) }
    try engine.compact()
  }

  @Test func `live data, garbage and what a reader keeps add up`() throws {
    let world = try ObservedEngine()
    let engine = world.engine
    try Self.fill(engine)
    let full = try engine.space()
    #expect(full.tableBytes == engine.statistics.tableBytes)
    #expect(full.liveBytes == full.tableBytes)
    #expect(full.keptBytes == 0 && full.sharedBytes == 0 && full.reserveBytes == 0)
    #expect(full.oldestReaderNanoseconds == nil)
    #expect(full.logBytes > 0)
    let cursor = try engine.cursor()
    for index in 0..<500 { try engine.delete(ObservedEngine.key(index)) }
    try engine.flush()
    let deleted = try engine.space()
    #expect(deleted.garbageEstimatedBytes > 0)
    #expect(deleted.liveBytes + deleted.garbageEstimatedBytes + deleted.garbageFoundBytes == deleted.tableBytes)
    try engine.compact()
    let kept = try engine.space()
    #expect(kept.keptBytes > 0)
    #expect(kept.oldestReaderNanoseconds != nil)
    withExtendedLifetime(cursor) {}
    _ = try world.close()
  }

  @Test func `what snapshots hold is known by reader with its age, and is garbage when they have ended`() throws {
    let world = try ObservedEngine()
    let engine = world.engine
    try Self.fill(engine)
    let second: UInt64 = 1_000_000_000
    var snapshots: [EngineSnapshot] = []
    // The first snapshot alone sees the old values of 500 keys, the second one those of 1,000 others.
    for keys in [0..<500, 500..<1_500] {
      snapshots.append(engine.snapshot())
      world.executor.clock.advance(second)
      for index in keys { try engine.put(ObservedEngine.key(index), [UInt8](repeating: 2, count: 100)) }
      try engine.compact()
    }
    let full = try engine.space()
    #expect(full.holders.map(\.sequence) == snapshots.map(\.sequence))
    #expect(full.holders.map(\.ageNanoseconds) == [2 * second, second])
    try #require(full.holders.count == 2)
    #expect(full.holders[1].bytes > full.holders[0].bytes && full.holders[0].bytes > 0)
    #expect(full.heldBytes == full.holders.reduce(0) { $0 + $1.bytes })
    #expect(full.liveBytes + full.heldBytes == full.tableBytes)
    // A third of the entries are old versions of the same size as the others.
    #expect(full.heldBytes > full.tableBytes / 4 && full.heldBytes < full.tableBytes / 2)
    // What the first one needs, the second one does not.
    snapshots.removeFirst()
    let one = try engine.space()
    #expect(one.holders.map(\.sequence) == snapshots.map(\.sequence))
    #expect(one.heldBytes < full.heldBytes && one.garbageEstimatedBytes > 0)
    #expect(one.liveBytes == full.liveBytes)
    snapshots = []
    let none = try engine.space()
    #expect(none.holders.isEmpty && none.heldBytes == 0)
    #expect(none.liveBytes == full.liveBytes)
    try engine.compact()
    let after = try engine.space()
    #expect(after.garbageEstimatedBytes == 0 && after.tableBytes < full.tableBytes * 4 / 5)
    _ = try world.close()
  }

  @Test func `tables that a checkpoint shares are counted until it is removed`() throws {
    let directory = try TemporaryDirectory()
    let engine = try Engine.open(at: directory.path + "/db", options: SmallEngine.options())
    try Self.fill(engine)
    #expect(try engine.space().sharedBytes == 0)
    _ = try engine.checkpoint(to: directory.path + "/copy")
    let shared = try engine.space()
    #expect(shared.sharedBytes == shared.tableBytes)
    #expect(shared.freeBytes != nil)
    try Engine.destroy(at: directory.path + "/copy")
    #expect(try engine.space().sharedBytes == 0)
    try engine.close()
  }
}
