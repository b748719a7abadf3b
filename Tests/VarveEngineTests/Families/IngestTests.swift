import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of tables that are added as a whole to an empty family.
struct IngestTests {
  private static func key(_ index: Int) -> [UInt8] { Array("key\(100_000 + index)".utf8) }

  private static func tables(
    _ engine: Engine, _ family: ColumnFamily, _ range: some Sequence<Int>, value: [UInt8] = [1]
  ) throws -> [SortedTable] {
    let writer = try engine.makeTableWriter(for: family)
    for index in range { try writer.put(key(index), value) }
    return try writer.finish()
  }

  private static func keys(
    _ engine: Engine, _ family: ColumnFamily, _ snapshot: EngineSnapshot? = nil
  ) throws -> [[UInt8]] {
    var keys: [[UInt8]] = []
    var cursor = try engine.cursor(in: family, snapshot: snapshot)
    try cursor.seekToFirst()
    while cursor.isValid {
      keys.append(cursor.keyBytes)
      try cursor.next()
    }
    return keys
  }

  private static func expectError(
    _ code: EngineError.Code, _ body: () throws -> Void, sourceLocation: SourceLocation = #_sourceLocation
  ) {
    do {
      try body()
      Issue.record("no error, but expected \(code)", sourceLocation: sourceLocation)
    } catch {
      #expect((error as? EngineError)?.code == code, "\(error)", sourceLocation: sourceLocation)
    }
  }

  @Test func `ingested tables are read, written over, compacted and found after an open`() throws {
    let environment = EngineEnvironment.inMemory()
    var engine = try Engine.open(at: "/db", options: EngineTests.options(), environment: environment)
    var family = try engine.createFamily("f", options: FamilyOptions(compression: CompressionKind.none))
    let before = engine.visibleSequence
    let tables = try Self.tables(engine, family, 0..<3_000, value: [UInt8](repeating: 7, count: 8_000))
    #expect(tables.count > 1 && tables.reduce(0) { $0 + $1.entryCount } == 3_000)
    let sequence = try engine.ingest(tables.reversed(), into: family)
    #expect(sequence > before && engine.visibleSequence == sequence)
    #expect(family.state.version.tables(level: Limits.levelCount - 1).count == tables.count)
    #expect(try Self.keys(engine, family) == (0..<3_000).map { Self.key($0) })
    #expect(
      try engine.multiGet([0, 1_500, 2_999, 3_000].map { Self.key($0) }, in: family).map { $0?.count } == [
        8_000, 8_000, 8_000, nil,
      ])
    try engine.put(Self.key(5), [5], in: family)
    try engine.delete(Self.key(6), in: family)
    try engine.deleteRange(from: Self.key(10), to: Self.key(2_990), in: family)
    for _ in 0..<2 {
      #expect(try engine.get(Self.key(5), in: family) == [5])
      #expect(try Self.keys(engine, family).count == 3_000 - 1 - 2_980)
      try engine.compact()
    }
    try engine.close()
    engine = try Engine.open(at: "/db", options: EngineTests.options(), environment: environment)
    family = try engine.family(named: "f")
    #expect(try Self.keys(engine, family).count == 19)
    #expect(engine.visibleSequence >= sequence)
    #expect(try engine.verify().faults.isEmpty)
    try engine.close()
  }

  @Test func `readers older than an ingestion see the family as empty`() throws {
    let engine = try Engine.open(at: "/db", options: EngineTests.options(), environment: .inMemory())
    let family = try engine.createFamily("f")
    try engine.put([1], [1])
    let snapshot = engine.snapshot()
    var cursor = try engine.cursor(in: family)
    var indexed = IndexedWriteBatch(engine, snapshot: snapshot)
    try indexed.put(Self.key(3), [3], in: family)
    try engine.ingest(Self.tables(engine, family, 0..<100), into: family)
    #expect(try engine.get(Self.key(1), in: family) == [1])
    #expect(try engine.get(Self.key(1), in: family, snapshot: snapshot) == nil)
    #expect(try engine.contains(Self.key(1), in: family, snapshot: snapshot) == false)
    let keys = (0..<10).map { Self.key($0) }
    #expect(try engine.multiGet(keys, in: family, snapshot: snapshot) == [[UInt8]?](repeating: nil, count: 10))
    #expect(try Self.keys(engine, family, snapshot).isEmpty)
    try cursor.seekToFirst()
    let isValid = cursor.isValid
    #expect(!isValid)
    #expect(try indexed.get(Self.key(3), in: family) == [3])
    #expect(try indexed.get(Self.key(4), in: family) == nil)
    var own = try indexed.cursor(in: family)
    try own.seekToFirst()
    #expect(own.keyBytes == Self.key(3))
    try own.next()
    let hasMore = own.isValid
    #expect(!hasMore)
    // The result is the same after the tables were merged with later entries.
    try engine.put(Self.key(50), [2], in: family)
    try engine.compact()
    #expect(try Self.keys(engine, family, snapshot).isEmpty)
    #expect(try Self.keys(engine, family).count == 100)
  }

  @Test func `an ingestion is a write of the whole family for transactions and for runs of dead keys`() throws {
    var options = EngineTests.options()
    options.deadRunMinimum = 32
    let engine = try Engine.open(at: "/db", options: options, environment: .inMemory())
    let family = try engine.createFamily("f")
    var reader = engine.beginTransaction(isolation: .serializable)
    #expect(try reader.get([9], in: family) == nil)
    try reader.put([1], [1])
    var writer = engine.beginTransaction(isolation: .snapshot)
    try writer.put([200], [1], in: family)
    var stranger = engine.beginTransaction(isolation: .serializable)
    try stranger.put([2], [2])
    try engine.ingest(Self.tables(engine, family, 0..<100), into: family)
    var codes: [EngineError.Code?] = []
    do { try reader.commit() } catch { codes.append(error.code) }
    do { try writer.commit() } catch { codes.append(error.code) }
    do { try stranger.commit() } catch { codes.append(error.code) }
    #expect(codes == [.conflict, .conflict])
    // A run of dead keys that a cursor saw before the ingestion must not be covered now.
    let snapshot = engine.snapshot()
    let other = try engine.createFamily("g")
    let run = DeadRun(family: other.state, snapshot: snapshot, lower: Self.key(0), upper: Self.key(99))
    try engine.ingest(Self.tables(engine, other, 0..<100), into: other)
    engine.core.background.deadRuns?.cover(run)
    try engine.put([3], [3])
    #expect(try Self.keys(engine, other).count == 100)
  }

  @Test func `an ingestion into a family that is not empty is refused, and changes no entry`() throws {
    let engine = try Engine.open(at: "/db", options: EngineTests.options(), environment: .inMemory())
    let family = try engine.createFamily("f")
    let tables = try Self.tables(engine, family, 0..<10)
    try engine.put([1], [1], in: family)
    Self.expectError(.invalidArgument) { try engine.ingest(tables, into: family) }
    try engine.flush()
    Self.expectError(.invalidArgument) { try engine.ingest(tables, into: family) }
    try engine.delete([1], in: family)
    Self.expectError(.invalidArgument) { try engine.ingest(tables, into: family) }
    #expect(try Self.keys(engine, family).isEmpty)
    try engine.compact()
    try engine.ingest(tables, into: family)
    #expect(try Self.keys(engine, family).count == 10)
    Self.expectError(.invalidArgument) { try engine.ingest(tables, into: family) }
  }

  @Test func `tables in the wrong order, of other families and engines are refused`() throws {
    let engine = try Engine.open(at: "/db", options: EngineTests.options(), environment: .inMemory())
    let other = try Engine.open(at: "/db", options: EngineTests.options(), environment: .inMemory())
    let family = try engine.createFamily("f")
    let writer = try engine.makeTableWriter(for: family)
    try writer.put([2], [1])
    Self.expectError(.invalidArgument) { try writer.put([1], [1]) }
    Self.expectError(.invalidArgument) { try writer.put([2], [1]) }
    Self.expectError(.limitExceeded) { try writer.put([UInt8](repeating: 3, count: 70_000), []) }
    try writer.put([3], [])
    let tables = try writer.finish()
    Self.expectError(.invalidArgument) { try writer.put([4], [1]) }
    Self.expectError(.invalidArgument) { try engine.ingest(tables, into: engine.defaultFamily) }
    Self.expectError(.invalidArgument) { try engine.ingest(tables + tables, into: family) }
    let foreign = try Self.tables(other, other.defaultFamily, 0..<3)
    Self.expectError(.invalidArgument) { try engine.ingest(foreign, into: engine.defaultFamily) }
    let volatile = try engine.createFamily("v", options: FamilyOptions(isVolatile: true))
    Self.expectError(.invalidArgument) { _ = try engine.makeTableWriter(for: volatile) }
    try engine.ingest(tables, into: family)
    #expect(try Self.keys(engine, family) == [[2], [3]])
    let gone = try engine.createFamily("gone")
    let left = try Self.tables(engine, gone, 0..<3)
    try engine.dropFamily(gone)
    Self.expectError(.familyDropped) { try engine.ingest(left, into: gone) }
  }

  @Test func `tables that are not ingested leave no file`() throws {
    let environment = EngineEnvironment.inMemory()
    var engine = try Engine.open(at: "/db", options: EngineTests.options(), environment: environment)
    func fileCount() throws -> Int { try environment.fileSystem.list("/db").count { $0.hasSuffix(".sst") } }
    do {
      let tables = try Self.tables(engine, engine.defaultFamily, 0..<10)
      let writer = try engine.makeTableWriter()
      try writer.put([1], [1])
      #expect(try fileCount() == 2 && tables.count == 1)
    }
    #expect(try fileCount() == 0)
    let kept = try Self.tables(engine, engine.defaultFamily, 0..<10)
    try engine.close()
    #expect(try fileCount() == 1 && kept.count == 1)
    engine = try Engine.open(at: "/db", options: EngineTests.options(), environment: environment)
    #expect(try fileCount() == 0)
    try engine.close()
  }

  @Test func `an ingestion that is refused consumes no table, and each can be ingested later`() throws {
    let observed = try ObservedEngine(EngineTests.options())
    let engine = observed.engine
    let (family, other) = (try engine.createFamily("f"), try engine.createFamily("g"))
    let used = try Self.tables(engine, family, 0..<10)
    try engine.ingest(used, into: family)
    let tables = try Self.tables(engine, other, 10..<20) + Self.tables(engine, other, 20..<30)
    // One of the tables was ingested before.
    let mixed = try Self.tables(engine, other, 0..<5)
    try engine.ingest(mixed, into: other)
    try engine.deleteRange(from: [0], to: [0xff], in: other)
    try engine.compact(family: other)
    if other.state.version.isEmpty, other.state.active(.beforeOpen).isEmpty {
      Self.expectError(.invalidArgument) { try engine.ingest(mixed + tables, into: other) }
      Self.expectError(.invalidArgument) { try engine.ingest(tables + mixed, into: other) }
    } else {
      Issue.record("the family is not empty")
    }
    // Simulates an engine that accepts no writes.
    engine.core.pipeline.poison(EngineError(.noSpace, "the disk is full"))
    Self.expectError(.noSpace) { try engine.ingest(tables, into: other) }
    observed.executor.clock.advance(1_000_000_000)
    try engine.resume()
    try engine.ingest(tables, into: other)
    #expect(try Self.keys(engine, other) == (10..<30).map { Self.key($0) })
    _ = try observed.close()
  }

  @Test(arguments: [Fault.Kind.sync, .write])
  func `a table that could not be finished leaves no file`(kind: Fault.Kind) throws {
    let observed = try ObservedEngine(EngineTests.options())
    let engine = observed.engine
    func files() throws -> Int { try observed.faults.list("/db").count { $0.hasSuffix(".sst") } }
    do {
      let writer = try engine.makeTableWriter()
      for index in 0..<100 { try writer.put(Self.key(index), [1]) }
      #expect(try files() == 1)
      observed.faults.inject(Fault([kind], pathSuffix: ".sst", count: 1, code: .noSpace))
      Self.expectError(.noSpace) { _ = try writer.finish() }
      observed.faults.clear()
      Self.expectError(.invalidArgument) { try writer.put([0xff], [1]) }
    }
    #expect(try files() == 0)
    _ = try observed.close()
  }

  @Test func `a table writer makes tables as large as those of the last level`() throws {
    var options = EngineTests.options(memtableSize: 1 << 20)
    options.bloomBitsPerKey = 0
    let engine = try Engine.open(at: "/db", options: options, environment: .inMemory())
    let plan = engine.core.background.plan
    let writer = try engine.makeTableWriter()
    var random = SeededRandom(seed: 1)
    let value = (0..<60_000).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    for index in 0..<Int(plan.tableSizeMaximum) / 60_000 + 100 { try writer.put(Self.key(index), value) }
    let tables = try writer.finish()
    #expect(plan.tableSizeMaximum > plan.tableSize)
    #expect(tables.count == 2 && (tables.first?.fileSize ?? 0) >= plan.tableSizeMaximum)
    try engine.ingest(tables)
    try engine.close()
  }
}
