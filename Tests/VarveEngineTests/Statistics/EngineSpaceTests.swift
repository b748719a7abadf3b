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
