import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of options of families that are changed while the engine is open.
struct FamilyOptionsTests {
  private static func fill(_ engine: Engine, _ family: ColumnFamily, _ count: Int, seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    for index in 0..<count {
      try engine.put(
        Array("key\(100_000 + index)".utf8), [UInt8](repeating: UInt8(random.below(256)), count: 100), in: family)
    }
  }

  @Test func `a new memtable size applies to the next memtable, and a new compression to the next table`() throws {
    var options = EngineTests.options(memtableSize: 1 << 20)
    options.compactsInBackground = false
    let environment = EngineEnvironment.inMemory()
    var engine = try Engine.open(at: "/db", options: options, environment: environment)
    var family = try engine.createFamily("f", options: FamilyOptions(compression: CompressionKind.none))
    try Self.fill(engine, family, 2_000, seed: 1)
    try engine.flush()
    let plain = family.state.version.tables(level: 0)
    #expect(plain.count == 1)
    try Self.fill(engine, family, 10, seed: 2)
    let active = family.state.active(.beforeOpen)
    try engine.setOptions(FamilyOptions(compression: .zstd, memtableSize: 64 << 10), of: family)
    #expect(family.state.active(.beforeOpen) === active && family.options.compression == .zstd)
    try engine.flush()
    try Self.fill(engine, family, 2_000, seed: 3)
    // The 2,000 rows of 100 bytes take more than twice the size of the memtable.
    let charged = family.state.active(.beforeOpen).chargedBytes
    #expect(charged < 128 << 10, "a memtable of 64 KiB takes \(charged) bytes")
    try engine.flush()
    try engine.close()
    engine = try Engine.open(at: "/db", options: options, environment: environment)
    family = try engine.family(named: "f")
    #expect(family.options == FamilyOptions(compression: .zstd, memtableSize: 64 << 10))
    #expect(try engine.get(Array("key101999".utf8), in: family)?.count == 100)
    try engine.setOptions(FamilyOptions(), of: family)
    #expect(family.options == FamilyOptions())
    try engine.close()
  }

  @Test func `a family's merge operator and volatility can't be changed, and its sizes have bounds`() throws {
    let engine = try Engine.open(at: "/db", options: EngineTests.options(), environment: .inMemory())
    let family = try engine.createFamily("f", options: FamilyOptions(mergeOperator: "varve.counter"))
    func code(_ options: FamilyOptions) -> EngineError.Code? {
      do throws(EngineError) { try engine.setOptions(options, of: family) } catch { return error.code }
      return nil
    }
    #expect(code(FamilyOptions()) == .invalidArgument)
    #expect(code(FamilyOptions(mergeOperator: "varve.max")) == .invalidArgument)
    #expect(code(FamilyOptions(mergeOperator: "varve.counter", isVolatile: true)) == .invalidArgument)
    #expect(code(FamilyOptions(mergeOperator: "varve.counter", memtableSize: 1_000)) == .invalidArgument)
    #expect(family.options == FamilyOptions(mergeOperator: "varve.counter"))
    #expect(code(FamilyOptions(compression: .lz4, mergeOperator: "varve.counter")) == nil)
    try engine.dropFamily(family)
    #expect(code(FamilyOptions(mergeOperator: "varve.counter")) == .familyDropped)
  }

  @Test func `encoded options have the documented bytes, and damaged ones are refused`() throws {
    for options in [
      FamilyOptions(memtableSize: 1 << 20), FamilyOptions(compression: .zstd, isVolatile: true, memtableSize: 65_536),
      FamilyOptions(mergeOperator: "varve.max", memtableSize: 1 << 30), FamilyOptions(mergeOperator: "varve.max"),
    ] {
      #expect(try FamilyOptions(decoding: options.encoded, family: "f") == options)
    }
    let bytes = FamilyOptions(memtableSize: 65_536).encoded
    #expect(bytes == [255, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0])
    for count in 4..<bytes.count {
      #expect(throws: EngineError.self) { try FamilyOptions(decoding: Array(bytes.prefix(count)), family: "f") }
    }
    #expect(throws: EngineError.self) { try FamilyOptions(decoding: [255, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], family: "f") }
  }

  @Test func `a sync through a sequence makes it durable, and a durable sequence is not synced again`() throws {
    let disk = CrashFileSystem(seed: 3)
    // With a stepped executor, no background job touches the disk between two checks.
    let executor = SteppedExecutor(seed: 3)
    let environment = FollowFixture.environment(disk, executor, seed: 3)
    let engine = try Engine.open(at: "/db", options: EngineTests.options(), environment: environment)
    let first = try engine.put([1], [1])
    let second = try engine.put([2], [2])
    #expect(engine.durableSequence < first)
    try engine.sync(through: first)
    #expect(engine.durableSequence >= first)
    try engine.sync(through: second)
    #expect(engine.durableSequence == second)
    let count = disk.operationCount
    try engine.sync(through: first)
    try engine.sync(through: .zero)
    #expect(disk.operationCount == count)
    #expect(throws: EngineError.self) { try engine.sync(through: SequenceNumber(second.value + 1)) }
    try engine.close()
  }

  @Test func `a family is opened or created, with what can't be changed as its options say`() throws {
    let environment = EngineEnvironment.inMemory()
    var engine = try Engine.open(at: "/db", options: EngineTests.options(), environment: environment)
    let options = FamilyOptions(compression: .zstd, mergeOperator: "varve.counter")
    let family = try engine.openFamily("f", options: options)
    #expect(family.options == options)
    #expect(try engine.openFamily("f").id == family.id)
    #expect(try engine.openFamily("f", options: FamilyOptions(mergeOperator: "varve.counter")).options == options)
    for wrong in [FamilyOptions(), FamilyOptions(mergeOperator: "varve.counter", isVolatile: true)] {
      let error = #expect(throws: EngineError.self) { try engine.openFamily("f", options: wrong) }
      #expect(error?.code == .invalidArgument && error?.message.contains("\"f\"") == true, "\(error as Any)")
    }
    #expect(try engine.openFamily("default").id == engine.defaultFamily.id)
    #expect(throws: EngineError.self) { try engine.openFamily("") }
    try engine.close()
    #expect(throws: EngineError.self) { try engine.openFamily("f") }
    var readOnly = EngineTests.options()
    readOnly.readOnly = true
    engine = try Engine.open(at: "/db", options: readOnly, environment: environment)
    #expect(try engine.openFamily("f", options: options).options == options)
    let error = #expect(throws: EngineError.self) { try engine.openFamily("g") }
    #expect(error?.code == .readOnly)
    try engine.close()
  }

  @Test func `threads that open a family at once all get the one that one of them has created`() async throws {
    let engine = try Engine.open(at: "/db", options: EngineTests.options(), environment: .inMemory())
    for round in 0..<50 {
      let found = try await withThrowingTaskGroup(of: FamilyID.self) { group in
        for _ in 0..<4 { group.addTask { try engine.openFamily("family \(round)").id } }
        return try await group.reduce(into: Set()) { $0.insert($1) }
      }
      #expect(found.count == 1)
    }
    #expect(engine.families.count == 51)
    try engine.close()
  }
}
