import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of what opening a database reads, accepts and refuses.
struct OpeningTests {
  private static func key(_ index: Int) -> [UInt8] { Array("key\(10_000 + index)".utf8) }

  @Test func `opening touches no table, and a read opens the tables that may have its key`() throws {
    let disk = CountingFileSystem()
    let environment = DirectoryImage.environment(disk)
    let engine = try Engine.open(at: "/db", options: SmallEngine.options(), environment: environment)
    for round in 0..<5 {
      for index in 0..<50 { try engine.put(Self.key(round * 50 + index), [UInt8(round)]) }
      try engine.flush()
    }
    try engine.close()
    let before = disk.openedCount
    let again = try Engine.open(at: "/db", options: SmallEngine.options(), environment: environment)
    #expect(again.statistics.levels.reduce(0) { $0 + $1.fileCount } == 5)
    #expect(disk.openedCount == before)
    #expect(try again.get(Self.key(0)) == [0])
    #expect(disk.openedCount == before + 1)
    try again.close()
  }

  @Test func `an empty database takes less than a mebibyte, open and closed`() throws {
    let disk = MemoryFileSystem()
    func size() throws -> UInt64 {
      try disk.list("/db").reduce(0) { try $0 + (disk.attributes("/db/" + $1)?.size ?? 0) }
    }
    let engine = try Engine.open(at: "/db", environment: DirectoryImage.environment(disk))
    #expect(try size() < 1 << 20)
    try engine.close()
    #expect(try size() < 1 << 20)
  }

  @Test func `an engine explains the values that follow from its options`() throws {
    var options = SmallEngine.options()
    options.memoryBudget = 64 << 20
    let engine = try Engine.open(at: "/db", options: options, environment: .inMemory())
    let text = engine.explain()
    let statistics = ["memtableSize = 65536: as the options say", "logSegmentSize = 262144", " 0 open tables"]
    for words in ["database /db"] + statistics {
      #expect(text.contains(words), "\(words) in:\n\(text)")
    }
    try engine.close()
  }

  @Test func `segments double while they fill within seconds, and stay small while they fill slowly`() throws {
    func largest(nanosecondsBetween pause: UInt64) throws -> UInt64 {
      let disk = MemoryFileSystem()
      let executor = SteppedExecutor(seed: 1)
      let random = Mutex(SeededRandom(seed: 1))
      var options = EngineOptions()
      options.memtableSize = 16 << 20
      let engine = try Engine.open(
        at: "/db", options: options,
        environment: EngineEnvironment(
          fileSystem: disk, clock: executor.clock, random: { random.withLock { $0.next() } },
          makeExecutor: { _ in executor }))
      for index in 0..<4_000 {
        try engine.put(Self.key(index), [UInt8](repeating: 1, count: 1_000))
        executor.clock.advance(pause)
        executor.runAll()
      }
      let names = try disk.list("/db").filter { $0.hasSuffix(".log") }
      let sizes = try names.map { try disk.attributes("/db/" + $0)?.size ?? 0 }
      try engine.close()
      return sizes.max() ?? 0
    }
    // A segment of 256 KiB has room for 250 of the puts: 7 seconds at 30 ms each.
    #expect(try largest(nanosecondsBetween: 30_000_000) == 256 << 10)
    #expect(try largest(nanosecondsBetween: 0) >= 1 << 20)
  }
}
