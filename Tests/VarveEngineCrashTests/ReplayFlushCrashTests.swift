import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// The power goes while a log that is longer than the memory budget is replayed: at every operation of the disk, from
/// the first table that replay writes to the edit that names them all.
struct ReplayFlushCrashTests {
  private static let entryCount = 1_600
  private static func open(_ disk: CrashFileSystem, memtableSize: Int, seed: UInt64) throws -> Engine {
    let executor = SteppedExecutor(seed: seed, clock: ManualClock(1_000_000_000))
    let numbers = Mutex(SeededRandom(seed: seed))
    var options = EngineOptions()
    options.memtableSize = memtableSize
    options.cacheSize = 256 << 10
    options.logSegmentSize = 256 << 10
    let environment = EngineEnvironment(
      fileSystem: disk, clock: executor.clock, random: { numbers.withLock { $0.next() } },
      makeExecutor: { _ in executor })
    return try Engine.open(at: "/db", options: options, environment: environment)
  }

  private static func key(_ index: Int) -> [UInt8] { [UInt8(index % 251), UInt8(index >> 8), UInt8(index & 0xff)] }

  private static func value(_ index: Int) -> [UInt8] { [UInt8](repeating: UInt8(index & 0xff), count: 300) }

  /// A disk whose log has batches over three families, none of them in a table, all of them durable. Every fifth batch
  /// removes a key of one family; another one counts. With `copies` its memtable was logged again near the end.
  private static func fill(copies: Bool = false) throws -> CrashFileSystem {
    let disk = CrashFileSystem(seed: 7)
    let engine = try open(disk, memtableSize: 8 << 20, seed: 7)
    let pair = try engine.createFamily("pair")
    let count = try engine.createFamily(
      "count", options: FamilyOptions(mergeOperator: CounterOperator().name))
    for index in 0..<entryCount {
      var batch = WriteBatch()
      try batch.put(key(index), value(index))
      try batch.put(key(index), value(index + 1), in: pair)
      if index % 5 == 4 { try batch.delete(key(index - 2), in: pair) }
      try batch.merge(counter(index), CounterOperator.bytes(1), in: count)
      if copies, index == entryCount - 100 {
        engine.core.pipeline.logBytesMaximum = engine.core.pipeline.log.liveBytes - 1
        engine.core.pipeline.lead { engine.core.pipeline.enforceLogBound($0) }
        #expect(engine.core.pipeline.bytesLoggedAgain > 64 << 10)
      }
      try engine.write(batch, durability: index == entryCount - 1 ? .power : .process)
    }
    disk.crash()
    return disk.crashImage(seed: 7, policy: .loseAllUnsynced)
  }

  private static func counter(_ index: Int) -> [UInt8] { [UInt8](repeating: UInt8(index % 100), count: 40) }

  /// Every key is there with its value, and every table is whole.
  private static func check(_ engine: Engine) throws -> Bool {
    let pair = try engine.family(named: "pair")
    let count = try engine.family(named: "count")
    for index in 0..<100 {
      guard try engine.get(counter(index), in: count) == CounterOperator.bytes(Int64(entryCount / 100)) else {
        return false
      }
    }
    for index in 0..<entryCount {
      guard try engine.get(key(index)) == value(index) else { return false }
      let isRemoved = index % 5 == 2 && index + 2 < entryCount
      guard try engine.get(key(index), in: pair) == (isRemoved ? nil : value(index + 1)) else { return false }
    }
    return try engine.verify().faults.isEmpty
  }

  private static func tableCount(_ engine: Engine) -> Int {
    engine.families.reduce(0) { $0 + $1.state.version.tableCount }
  }

  @Test func `replay flushes where frozen memtables reach their bound, and the first edit names the tables`() throws {
    let engine = try Self.open(try Self.fill(), memtableSize: 64 << 10, seed: 8)
    #expect(Self.tableCount(engine) >= 2)
    let plan = engine.core.background.plan
    #expect(engine.core.pipeline.memory.frozenSize <= plan.frozenBytesMaximum)
    #expect(engine.core.tree.budget.used(.memTables) <= plan.frozenBytesMaximum + 2 * plan.activeBytesMaximum)
    #expect(try Self.check(engine))
    try engine.close()
  }

  /// Without a close: the first edit alone says what is in tables.
  @Test func `what replay flushed is not replayed again`() throws {
    let disk = try Self.fill()
    _ = try Self.open(disk, memtableSize: 64 << 10, seed: 8)
    let again = try Self.open(
      disk.crashImage(seed: 8, policy: .processKill), memtableSize: 64 << 10, seed: 9)
    #expect(try Self.check(again))
    try again.close()
  }

  @Test func `memtables wait for the copies of their entries`() throws {
    let engine = try Self.open(try Self.fill(copies: true), memtableSize: 64 << 10, seed: 8)
    #expect(Self.tableCount(engine) >= 1)
    #expect(try Self.check(engine))
    try engine.close()
  }

  @Test(arguments: CrashPolicy.allCases)
  func `wherever the power goes in a replay that flushes, the next open finds the same`(policy: CrashPolicy) throws {
    let source = try Self.fill()
    let points = Mutex<[(CrashPoint, String)]>([])
    source.observe { operation, capture in
      let point = capture()
      points.withLock { $0.append((point, operation.description)) }
    }
    let whole = try Self.open(source, memtableSize: 64 << 10, seed: 9)
    source.observe(nil)
    let tableCount = Self.tableCount(whole)
    try whole.close()
    let recorded = points.withLock { $0 }
    // A file made, written and synced for each table, and their directory.
    #expect(recorded.count >= 3 * tableCount + 1)
    var random = SeededRandom(seed: 10)
    for (index, (point, description)) in recorded.enumerated() {
      let seed = random.next()
      let image = point.image(seed: seed, policy: policy)
      let engine = try Self.open(image, memtableSize: random.oneIn(2) ? 64 << 10 : 8 << 20, seed: seed)
      #expect(try Self.check(engine), "point \(index), \(description), seed \(seed)")
      // What no edit names is gone.
      let files = try image.list("/db").count { $0.hasSuffix(".sst") }
      #expect(files == Self.tableCount(engine), "point \(index), \(description), seed \(seed)")
      try engine.close()
    }
    print("replay that flushes, \(policy.rawValue): \(recorded.count) crash points, \(tableCount) tables")
  }
}
