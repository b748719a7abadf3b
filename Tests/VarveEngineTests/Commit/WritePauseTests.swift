import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// Tests of what happens to level 0 when writes pause, and to the files that are no longer needed then.
struct WritePauseTests {
  private static let second: UInt64 = 1_000_000_000

  private static func options() -> EngineOptions {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    return options
  }

  private static func open() throws -> (Engine, SteppedExecutor) {
    let executor = SteppedExecutor(seed: 3)
    let random = Mutex(SeededRandom(seed: 3))
    let environment = EngineEnvironment(
      fileSystem: MemoryFileSystem(), clock: executor.clock, random: { random.withLock { $0.next() } },
      makeExecutor: { _ in executor })
    return (try Engine.open(at: "/db", options: options(), environment: environment), executor)
  }

  /// Writes every key again, so that all tables overlap, and flushes. The clock does not advance.
  private static func flush(_ engine: Engine, _ round: Int) throws {
    for index in 0..<100 {
      let value = [UInt8](repeating: UInt8(truncatingIfNeeded: round), count: 100)
      try engine.put(Array("key\(1_000 + index)".utf8), value)
    }
    try engine.flush()
  }

  private static func depth(_ engine: Engine) -> Int { engine.statistics.families[0].levels[0].fileCount }

  @Test func `level 0 waits for more tables during flushes, and is merged after a second without one`() throws {
    let (engine, executor) = try Self.open()
    for round in 0..<5 {
      try Self.flush(engine, round)
      executor.runAll()
    }
    #expect(Self.depth(engine) == 4, "the first table goes down unread")
    executor.clock.advance(Self.second)
    try Self.flush(engine, 5)
    executor.runAll()
    #expect(Self.depth(engine) == 5, "a flush came meanwhile: the pause begins again")
    // The timer runs once a second, so it may detect the pause a second late.
    for _ in 0..<2 {
      executor.clock.advance(Self.second)
      executor.runAll()
    }
    #expect(Self.depth(engine) == 0)
    #expect(!executor.pending.contains("compaction.idle"), "a tree at rest asks for no timer")
    #expect(try engine.get(Array("key1000".utf8)) == [UInt8](repeating: 5, count: 100))
    try engine.close()
  }

  @Test func `a wait for compactions counts as a pause of writes at once`() throws {
    let (engine, executor) = try Self.open()
    for round in 0..<5 {
      try Self.flush(engine, round)
      executor.runAll()
    }
    let before = executor.clock.now()
    try engine.waitForCompaction()
    #expect(Self.depth(engine) == 0)
    #expect(executor.clock.now() == before)
    try engine.close()
  }

  @Test func `a table that is small beside the base level stays in level 0 in a pause`() throws {
    let (engine, executor) = try Self.open()
    for index in 0..<2_000 {
      try engine.put(Array("key\(1_000 + index)".utf8), Array("value \(index * 7_919)".utf8))
    }
    try engine.flush()
    try engine.waitForCompaction()
    try engine.put(Array("key1500".utf8), [1])
    try engine.flush()
    executor.runAll()
    executor.clock.advance(3 * Self.second)
    executor.runAll()
    try engine.waitForCompaction()
    #expect(Self.depth(engine) == 1)
    try engine.close()
  }

  @Test func `the files of replaced tables are removed when a wait for compactions ends`() throws {
    let disk = MemoryFileSystem()
    var environment = EngineEnvironment.system
    environment.fileSystem = disk
    let engine = try Engine.open(at: "/db", options: Self.options(), environment: environment)
    for round in 0..<300 {
      try Self.flush(engine, round)
      try Self.flush(engine, round + 1)
      try engine.waitForCompaction()
      let files = try disk.list("/db").filter { $0.hasSuffix(".sst") }
      let live = engine.statistics.levels.reduce(0) { $0 + $1.fileCount }
      #expect(files.count == live, "round \(round)")
    }
    try engine.close()
  }
}
