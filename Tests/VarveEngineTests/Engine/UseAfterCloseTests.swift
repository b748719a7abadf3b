import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// What the engine refuses by an error instead of an end of the process.
struct UseAfterCloseTests {
  private static func code(_ body: () throws -> Void) -> EngineError.Code? {
    do { try body() } catch { return (error as? EngineError)?.code }
    return nil
  }

  @Test func `every call that throws throws closed`() throws {
    let engine = try Engine.open(at: "/db", environment: .inMemory())
    let family = engine.defaultFamily
    try engine.put([1], [1])
    try engine.close()
    let codes = [
      Self.code { try engine.put([1], [2]) },
      Self.code { try engine.delete([1]) },
      Self.code { _ = try engine.get([1]) },
      Self.code { _ = try engine.contains([1]) },
      Self.code { _ = try engine.multiGet([[1], [2]]) },
      Self.code { _ = try engine.cursor() },
      Self.code {
        var batch = WriteBatch()
        try batch.put([1], [2])
        try engine.write(batch)
      },
      Self.code { try engine.flush() },
      Self.code { try engine.compact() },
      Self.code { try engine.sync() },
      Self.code { try engine.waitForCompaction() },
      Self.code { try engine.resume() },
      Self.code { _ = try engine.verify() },
      Self.code { _ = try engine.createFamily("more") },
      Self.code { try engine.dropFamily(family) },
      Self.code { _ = try engine.family(named: "default") },
      Self.code { try engine.setMemoryBudget(64 << 20) },
      Self.code { _ = try engine.checkpoint(to: "/copy") },
    ]
    #expect(codes.allSatisfy { $0 == .closed }, "\(codes)")
    try engine.close()
  }

  @Test func `a batch that no memtable could hold changes nothing, and the next one works`() throws {
    let engine = try Engine.open(at: "/db", environment: .inMemory())
    try engine.put([1], [1])
    let state = engine.defaultFamily.state
    // As 72 million deletes of keys of 8 bytes, which a batch may have.
    let error = #expect(throws: EngineError.self) {
      try engine.core.pipeline.lead { (lead) throws(EngineError) in
        _ = try engine.core.pipeline.memory.makeRoom(
          in: state, for: MemTableNeed(entryCount: 72_000_000, byteCount: 576_000_000), lead, unless: { false })
      }
    }
    #expect(error?.code == .limitExceeded)
    try engine.put([2], [2])
    #expect(try engine.multiGet([[1], [2]]) == [[1], [2]])
    try engine.close()
  }
}
