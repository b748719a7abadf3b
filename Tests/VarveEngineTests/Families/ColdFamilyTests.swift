import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// Tests of a family that receives few writes: it neither keeps the log of the others nor makes tables.
struct ColdFamilyTests {
  private static func options() -> EngineOptions {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.logSegmentSize = 64 << 10
    return options
  }

  private static func key(_ index: Int) -> [UInt8] { Array("key\(10_000 + index)".utf8) }

  private static func open(_ fileSystem: any FileSystem, seed: UInt64) throws -> (Engine, SteppedExecutor) {
    let executor = SteppedExecutor(seed: seed)
    // Tables with the same identifier would share blocks of the cache.
    let random = Mutex(SeededRandom(seed: seed))
    return (
      try Engine.open(
        at: "/db", options: options(),
        environment: EngineEnvironment(
          fileSystem: fileSystem, clock: executor.clock, random: { random.withLock { $0.next() } },
          makeExecutor: { _ in executor })),
      executor
    )
  }

  /// Writes 400 bytes to the hot family, and sometimes lets the engine work.
  private static func heat(_ engine: Engine, _ executor: SteppedExecutor, _ round: Int) throws {
    try engine.put(key(round % 500), [UInt8](repeating: UInt8(truncatingIfNeeded: round), count: 400))
    if round % 20 == 0 { executor.runAll() }
  }

  @Test func `a cold family makes no table, and the log stays within its bound`() throws {
    let disk = MemoryFileSystem()
    let (engine, executor) = try Self.open(disk, seed: 1)
    let cold = try engine.createFamily("cold")
    let bound = engine.core.pipeline.logBytesMaximum
    var longest = 0
    for round in 0..<15_000 {
      // A few batches over both families at the beginning, and few later.
      if round < 5 || round % 4_000 == 0 {
        var batch = WriteBatch()
        try batch.put(Self.key(round), [1, UInt8(truncatingIfNeeded: round)], in: cold)
        try batch.put(Self.key(round % 500), [2])
        try engine.write(batch)
      }
      try Self.heat(engine, executor, round)
      longest = max(longest, Int(engine.statistics.logBytes))
    }
    let turns = Int(engine.core.pipeline.acceptedBytes) / bound
    #expect(turns >= 10)
    #expect(longest <= bound + 4 * engine.core.background.plan.logSegmentSize, "\(longest) of \(bound)")
    let statistics = engine.statistics.families.first { $0.name == "cold" }
    #expect(statistics?.levels.allSatisfy { $0.fileCount == 0 } == true)
    #expect(statistics?.memTableEntryCount == 8)
    // At most an eighth of the bound is logged again in each turn.
    #expect(engine.core.pipeline.bytesLoggedAgain > 0)
    #expect(engine.core.pipeline.bytesLoggedAgain <= UInt64(turns + 1) * UInt64(bound / 8))
    // Both copies must be there after the death of the process.
    let (again, _) = try Self.open(try Self.copy(disk), seed: 2)
    let family = try again.family(named: "cold")
    for round in [0, 1, 2, 3, 4, 4_000, 8_000, 12_000] {
      #expect(try again.get(Self.key(round), in: family) == [1, UInt8(truncatingIfNeeded: round)])
    }
    try again.close()
    try engine.close()
  }

  @Test func `cold entries beyond an eighth of the log's bound are flushed instead of logged again`() throws {
    let (engine, executor) = try Self.open(MemoryFileSystem(), seed: 1)
    let families = try (0..<4).map { try engine.createFamily("warm\($0)") }
    for family in families {
      for index in 0..<80 { try engine.put(Self.key(index), [UInt8](repeating: 1, count: 400), in: family) }
    }
    for round in 0..<5_000 { try Self.heat(engine, executor, round) }
    executor.runAll()
    let flushed = engine.statistics.families.filter {
      $0.name.hasPrefix("warm") && $0.levels.contains { $0.fileCount > 0 }
    }
    #expect(!flushed.isEmpty && engine.core.pipeline.bytesLoggedAgain > 0)
    try engine.close()
  }

  @Test func `a family with unlogged entries is flushed, not logged again`() throws {
    let (engine, executor) = try Self.open(MemoryFileSystem(), seed: 1)
    let cold = try engine.createFamily("cold")
    try engine.put(Self.key(0), [0], in: cold)
    try engine.put(Self.key(1), [1], in: cold, durability: Durability.none)
    for round in 0..<3_000 { try Self.heat(engine, executor, round) }
    executor.runAll()
    let statistics = engine.statistics.families.first { $0.name == "cold" }
    #expect(statistics?.levels.contains { $0.fileCount > 0 } == true)
    try engine.close()
  }

  @Test func `a cold entry that is logged again after a failed sync survives a loss of power`() throws {
    let disk = CrashFileSystem(seed: 1)
    let (engine, executor) = try Self.open(disk, seed: 1)
    let cold = try engine.createFamily("cold")
    try engine.put(Self.key(0), [7], in: cold, durability: .power)
    var round = 0
    while engine.core.pipeline.bytesLoggedAgain == 0 {
      try Self.heat(engine, executor, round)
      round += 1
    }
    // The copy is not yet durable, and the segment that it is in is lost; then the old one is freed.
    disk.failSyncs(ofPathsEndingIn: ".log")
    #expect(throws: EngineError.self) { try engine.sync() }
    for _ in 0..<200 {
      try Self.heat(engine, executor, round)
      round += 1
    }
    executor.runAll()
    let (again, _) = try Self.open(disk.crashImage(seed: 1, policy: .loseAllUnsynced), seed: 2)
    #expect(try again.get(Self.key(0), in: try again.family(named: "cold")) == [7])
    try again.close()
    try engine.close()
  }

  @Test func `the old copy of a cold entry is freed only after the new copy is durable`() throws {
    let disk = CrashFileSystem(seed: 1)
    let (engine, executor) = try Self.open(disk, seed: 1)
    let cold = try engine.createFamily("cold")
    try engine.put(Self.key(0), [7], in: cold, durability: .power)
    let points = Mutex<[CrashPoint]>([])
    for round in 0..<4_000 {
      let moved = engine.core.pipeline.bytesLoggedAgain
      try engine.put(Self.key(round % 500), [UInt8](repeating: 1, count: 400))
      guard engine.core.pipeline.bytesLoggedAgain == moved else {
        // The job that frees the old segment is stepped alone, and the power is lost at each of its operations.
        disk.observe { _, capture in points.withLock { $0.append(capture()) } }
        executor.runAll()
        disk.observe(nil)
        points.withLock { $0.append(disk.crashPoint) }
        continue
      }
      if round % 20 == 0 {
        try engine.sync()
        executor.runAll()
      }
    }
    let taken = points.withLock { $0 }
    #expect(taken.count > 20)
    for (index, point) in taken.enumerated() {
      let (again, _) = try Self.open(point.image(seed: 1, policy: .loseAllUnsynced), seed: 2)
      #expect(try again.get(Self.key(0), in: try again.family(named: "cold")) == [7], "point \(index)")
    }
    try engine.close()
  }

  /// Returns a copy of the present files.
  private static func copy(_ fileSystem: MemoryFileSystem) throws -> MemoryFileSystem {
    let copy = MemoryFileSystem()
    try copy.createDirectory("/db")
    for name in try fileSystem.list("/db") {
      let source = try fileSystem.openFile("/db/" + name, writable: false)
      let content = try FileContents(reading: source, size: Int(try source.size()))
      let target = try copy.createFile("/db/" + name)
      try unsafe target.write(content.view.buffer, at: 0)
    }
    return copy
  }
}
