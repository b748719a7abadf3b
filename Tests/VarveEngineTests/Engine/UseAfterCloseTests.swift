import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of uses that the engine refuses by an error instead of ending the process.
struct UseAfterCloseTests {
  private static func code(_ body: () throws -> Void) -> EngineError.Code? {
    do { try body() } catch { return (error as? EngineError)?.code }
    return nil
  }

  @Test func `every call that throws throws closed`() throws {
    let engine = try Engine.open(at: "/db", environment: .inMemory())
    let family = engine.defaultFamily
    let empty = try engine.createFamily("empty")
    try engine.put([1], [1])
    let (writer, ended) = (try engine.makeTableWriter(for: empty), try engine.makeTableWriter(for: empty))
    try writer.put([1], [1])
    try ended.put([2], [2])
    let tables = try ended.finish()
    var transaction = engine.beginTransaction()
    try transaction.put([3], [3])
    let block = DamagedBlock(
      family: "default", table: 1, level: 0, file: "/db/000001.sst", offset: 0, message: "a checksum differs")
    try engine.close()
    var committed: EngineError.Code?
    do { try transaction.commit() } catch { committed = error.code }
    // Simulates a call of `transaction` during which the engine is closed after its first check.
    let late = OptimisticTransaction(engine.core, .serializable)
    let read = Self.code { _ = try late.get([1]) }
    let codes = [
      committed, read,
      Self.code { _ = try engine.transaction { try $0.put([4], [4]) } },
      Self.code { try engine.giveUp(block) },
      Self.code { try writer.put([2], [2]) },
      Self.code { _ = try writer.finish() },
      Self.code { try engine.ingest(tables, into: empty) },
      Self.code { _ = try engine.makeTableWriter() },
      Self.code { try engine.setOptions(FamilyOptions(), of: family) },
      Self.code { try engine.sync(through: SequenceNumber(1)) },
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

  /// Simulates a call that began before the close and waited for a lock meanwhile.
  @Test func `nothing is written into the directory after a close`() throws {
    let environment = EngineEnvironment.inMemory()
    let engine = try Engine.open(at: "/db", environment: environment)
    let family = try engine.createFamily("family")
    try engine.put([1], [1])
    try engine.close()
    let before = try environment.fileSystem.list("/db").sorted()
    let (background, tree) = (engine.core.background, engine.core.tree)
    let damage = DamagedBlock(family: "default", table: 4, level: 0, file: "", offset: nil, message: "")
    let codes = [
      Self.code { _ = try background.createFamilies(["more"], options: FamilyOptions()) },
      Self.code { try background.setOptions(FamilyOptions(compression: CompressionKind.none), of: family.state) },
      Self.code { try background.dropFamily(family) },
      Self.code { try tree.commit(VersionEdit()) },
    ]
    #expect(codes.allSatisfy { $0 == .closed || $0 == .readOnly }, "\(codes)")
    #expect(throws: EngineError.self) {
      try background.compactions.giveUp(FileNumber(damage.table), of: engine.defaultFamily.state)
    }
    #expect(try environment.fileSystem.list("/db").sorted() == before)
  }

  @Test func `a batch that no memtable could hold changes nothing, and the next one works`() throws {
    let engine = try Engine.open(at: "/db", environment: .inMemory())
    try engine.put([1], [1])
    let state = engine.defaultFamily.state
    // The sizes are those of 72 million deletes of keys of 8 bytes, which a batch may contain.
    let error = #expect(throws: EngineError.self) {
      try engine.core.pipeline.lead { (lead) throws(EngineError) in
        _ = try engine.core.pipeline.memory.makeRoom(
          in: state, for: MemTableRequirement(entryCount: 72_000_000, byteCount: 576_000_000), lead, unless: { false })
      }
    }
    #expect(error?.code == .limitExceeded)
    try engine.put([2], [2])
    #expect(try engine.multiGet([[1], [2]]) == [[1], [2]])
    try engine.close()
  }
}
