import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests that thousands of families have costs in proportion to their content, and none that grow with the square of
/// their number.
struct ManyFamiliesTests {
  private static func open(
    _ fileSystem: any FileSystem, seed: UInt64 = 1, options: EngineOptions = DamageFixture.options()
  ) throws -> (Engine, SteppedExecutor) {
    let executor = SteppedExecutor(seed: seed, clock: ManualClock(1_000_000_000))
    let numbers = Mutex(SeededRandom(seed: seed))
    let environment = EngineEnvironment(
      fileSystem: fileSystem, clock: executor.clock, random: { numbers.withLock { $0.next() } },
      makeExecutor: { _ in executor })
    return (try Engine.open(at: "/db", options: options, environment: environment), executor)
  }

  private static func names(_ count: Int) -> [String] { (0..<count).map { "family \($0)" } }
  private static func key(_ index: Int) -> [UInt8] { DamageFixture.key(index) }

  private static func count(_ suffix: String, in disk: MemoryFileSystem) throws -> Int {
    try disk.list("/db").count { $0.hasSuffix(suffix) }
  }

  private static func code(_ body: () throws(EngineError) -> Void) -> EngineError.Code? {
    do throws(EngineError) {
      try body()
      return nil
    } catch { return error.code }
  }

  @Test func `families are made all at once or not at all`() throws {
    let disk = MemoryFileSystem()
    let faults = FaultInjectingFileSystem(disk)
    let (engine, _) = try Self.open(faults)
    let made = try engine.createFamilies(["a", "b", "c"])
    #expect(made.map(\.name) == ["a", "b", "c"] && made.map(\.id) == [1, 2, 3])
    #expect(try engine.createFamilies([]).isEmpty)
    #expect(Self.code { () throws(EngineError) in _ = try engine.createFamilies(["d", "b"]) } == .alreadyExists)
    #expect(Self.code { () throws(EngineError) in _ = try engine.createFamilies(["d", "d"]) } == .alreadyExists)
    #expect(Self.code { () throws(EngineError) in _ = try engine.createFamilies(["d", ""]) } == .invalidArgument)
    #expect(Self.code { () throws(EngineError) in _ = try engine.createFamilies(Self.names(9_997)) } == .limitExceeded)
    faults.inject(Fault([.write], pathSuffix: "MANIFEST-000001", code: .noSpace))
    #expect(Self.code { () throws(EngineError) in _ = try engine.createFamilies(["d", "e"]) } == .noSpace)
    #expect(engine.families.map(\.name) == ["default", "a", "b", "c"])
    #expect(try engine.createFamilies(["d", "e"]).map(\.id) == [4, 5])
    try engine.close()
    let (again, _) = try Self.open(disk)
    #expect(again.families.map(\.name) == ["default", "a", "b", "c", "d", "e"])
    try again.close()
  }

  @Test func `one flush takes many small memtables, and their moves make few edits`() throws {
    let disk = MemoryFileSystem()
    var options = DamageFixture.options()
    options.memtableSize = 4 << 20
    let (engine, executor) = try Self.open(disk, options: options)
    let families = try engine.createFamilies(Self.names(1_000))
    for (index, family) in families.enumerated() { try engine.put(Self.key(index), [1], in: family) }
    try engine.flush()
    #expect(executor.trace.filter { $0 == "flush" }.count < 20)
    try engine.waitForCompaction()
    let edits = engine.core.tree.state.nextFileNumber.value
    #expect(edits < 3_000)
    #expect(engine.statistics.levels.reduce(0) { $0 + $1.fileCount } == 1_000)
    try engine.close()
    let (again, _) = try Self.open(disk, options: options)
    for (index, family) in again.families.dropFirst().enumerated() {
      #expect(try again.get(Self.key(index), in: family) == [1])
    }
    try again.close()
  }

  @Test func `a close leaves the few entries of many families in the log, and flushes unlogged ones`() throws {
    let disk = MemoryFileSystem()
    var options = DamageFixture.options()
    options.memtableSize = 4 << 20
    options.logSegmentSize = 256 << 10
    let value = [UInt8](repeating: 3, count: 8_000)
    let (engine, _) = try Self.open(disk, options: options)
    let families = try engine.createFamilies(Self.names(200))
    for (index, family) in families.enumerated() { try engine.put(Self.key(index), value, in: family) }
    #expect(engine.core.pipeline.log.neededBytes > 1 << 20)
    try engine.close()
    #expect(try Self.count(".sst", in: disk) == 0)

    // An unlogged batch is in no log: its families get tables, and the others do not.
    let (second, _) = try Self.open(disk, seed: 2, options: options)
    for (index, family) in second.families.dropFirst().enumerated() {
      #expect(try second.get(Self.key(index), in: family) == value)
    }
    var batch = WriteBatch()
    for family in second.families[10..<13] { try batch.put([1], [2], in: family) }
    try second.write(batch, durability: Durability.none)
    try second.close()
    #expect(try Self.count(".sst", in: disk) == 3)

    let (third, _) = try Self.open(disk, seed: 3, options: options)
    for (index, family) in third.families.dropFirst().enumerated() {
      #expect(try third.get(Self.key(index), in: family) == value)
    }
    for family in third.families[10..<13] { #expect(try third.get([1], in: family) == [2]) }
    try third.close()
  }

  @Test func `a close flushes few families that have a long log`() throws {
    let disk = MemoryFileSystem()
    var options = DamageFixture.options()
    options.memtableSize = 4 << 20
    options.logSegmentSize = 256 << 10
    let (engine, _) = try Self.open(disk, options: options)
    let families = try engine.createFamilies(Self.names(4))
    for index in 0..<200 {
      try engine.put(Self.key(index), [UInt8](repeating: 3, count: 8_000), in: families[index % 4])
    }
    try engine.close()
    #expect(try Self.count(".sst", in: disk) == 4)
    #expect(try Self.count(".log", in: disk) == 1)
  }

  @Test func `a batch over thousands of families takes the memory of its entries`() throws {
    let (engine, _) = try Self.open(MemoryFileSystem(), options: EngineOptions())
    let families = try engine.createFamilies(Self.names(3_000))
    var batch = WriteBatch()
    for round in 0..<2 {
      for family in families { try batch.put(Self.key(round), [UInt8](repeating: 1, count: 100), in: family) }
    }
    let before = engine.statistics.memory.used
    try engine.write(batch)
    #expect(engine.statistics.memory.used - before <= 3_000 * 8_192)
    for family in families { #expect(try engine.get(Self.key(1), in: family)?.count == 100) }
    try engine.close()
  }

  @Test func `a batch stays whole when its families are flushed together and one has newer entries`() throws {
    let disk = CrashFileSystem(seed: 1)
    let (engine, executor) = try Self.open(disk)
    let one = try engine.createFamily("one")
    let two = try engine.createFamily("two")
    func freeze(_ family: ColumnFamily) {
      engine.core.pipeline.lead { engine.core.pipeline.memory.freeze(family.state, $0) }
    }
    try engine.put(Self.key(0), [1], in: two, durability: .power)
    freeze(two)
    // The batch's entry in `one` is flushed, and its entry in `two` is only in the log.
    var batch = WriteBatch()
    try batch.put(Self.key(1), [1], in: one)
    try batch.put(Self.key(1), [1], in: two)
    try engine.write(batch)
    freeze(one)
    while !(one.state.frozen.isEmpty && two.state.frozen.isEmpty), executor.step(named: "flush") {}
    #expect(one.state.version.tableCount == 1 && two.state.version.tableCount == 1)
    let (again, _) = try Self.open(disk.crashImage(seed: 1, policy: .loseAllUnsynced), seed: 2)
    #expect(try again.get(Self.key(1), in: try again.family(named: "one")) == [1])
    #expect(try again.get(Self.key(1), in: try again.family(named: "two")) == [1])
    try again.close()
    try engine.close()
  }

  @Test func `the log stays within its bound although nearly all families are cold`() throws {
    let disk = MemoryFileSystem()
    var options = DamageFixture.options()
    options.memtableSize = 1 << 20
    options.logSegmentSize = 256 << 10
    let (engine, executor) = try Self.open(disk, options: options)
    let families = try engine.createFamilies(Self.names(2_000))
    for (index, family) in families.enumerated() { try engine.put(Self.key(index), [1], in: family) }
    let bound = engine.core.pipeline.logBytesMaximum
    var longest = 0
    for round in 0..<60_000 {
      try engine.put(Self.key(round % 500), [UInt8](repeating: 1, count: 1_000))
      if round % 20 == 0 { executor.runAll() }
      if round % 100 == 0 { longest = max(longest, engine.core.pipeline.log.neededBytes) }
    }
    #expect(engine.core.pipeline.acceptedBytes > UInt64(4 * bound))
    #expect(longest <= bound + 8 * engine.core.background.plan.logSegmentSize, "\(longest) of \(bound)")
    withExtendedLifetime(engine) {}
    let image = try DirectoryImage(disk)
    let (again, _) = try Self.open(try image.makeFileSystem(), seed: 2, options: options)
    for (index, family) in again.families.dropFirst().enumerated() {
      #expect(try again.get(Self.key(index), in: family) == [1])
    }
    try again.close()
    try engine.close()
  }
}
