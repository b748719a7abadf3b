import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests that what only a released reader needed leaves the tables, once and without a call.
struct ReleasedEntryTests {
  private static let options: EngineOptions = {
    var options = SmallEngine.options()
    options.compression = CompressionKind.none
    options.deadRunMinimum = 0
    return options
  }()

  private static let count = 3_000

  /// A change of a loaded family.
  enum Change: String, CaseIterable {
    case overwritten, halfDeleted, fifthDeleted, rangeDeleted, counted, singleDeleted

    func apply(to engine: Engine, _ family: ColumnFamily) throws {
      let keys = 0..<ReleasedEntryTests.count
      switch self {
      case .overwritten: for index in keys { try engine.put(key(index), value(1), in: family) }
      case .halfDeleted: for index in keys where index % 2 == 0 { try engine.delete(key(index), in: family) }
      case .fifthDeleted: for index in keys where index % 5 == 0 { try engine.delete(key(index), in: family) }
      case .rangeDeleted: try engine.deleteRange(from: key(100), to: key(2_000), in: family)
      case .counted: for index in keys { try engine.merge(key(index), [1, 0, 0, 0, 0, 0, 0, 0], in: family) }
      case .singleDeleted: for index in keys where index % 2 == 0 { try engine.singleDelete(key(index), in: family) }
      }
    }

    func load(_ engine: Engine, _ family: ColumnFamily) throws {
      for index in 0..<ReleasedEntryTests.count {
        if self == .counted {
          try engine.merge(key(index), [7, 0, 0, 0, 0, 0, 0, 0], in: family)
        } else {
          try engine.put(key(index), value(0), in: family)
        }
      }
    }

    private func key(_ index: Int) -> [UInt8] { ObservedEngine.key(index) }
    private func value(_ round: UInt8) -> [UInt8] { [UInt8](repeating: round, count: 200) }
  }

  /// A reader that keeps old versions.
  enum Reader: String, CaseIterable {
    case snapshot, cursor, transaction

    /// Calls `body` while the reader lives.
    func hold(_ engine: Engine, _ family: ColumnFamily, _ body: () throws -> Void) throws {
      switch self {
      case .snapshot:
        let snapshot = engine.snapshot()
        try body()
        withExtendedLifetime(snapshot) {}
      case .cursor:
        var cursor = try engine.cursor(in: family)
        try cursor.seekToFirst()
        try body()
        let isValid = cursor.isValid
        #expect(isValid)
      case .transaction:
        let transaction = engine.beginTransaction()
        _ = try transaction.get(ObservedEngine.key(0), in: family)
        try body()
        withExtendedLifetime(transaction) {}
      }
    }
  }

  private static func family(_ engine: Engine) throws -> ColumnFamily {
    try engine.createFamily("f", options: FamilyOptions(mergeOperator: "varve.counter"))
  }

  private static func size(_ engine: Engine) -> UInt64 { engine.statistics.levels.reduce(0) { $0 + $1.bytes } }

  private static func entryCount(_ engine: Engine) -> UInt64 {
    engine.statistics.levels.reduce(0) { $0 + $1.entryCount }
  }

  /// Returns the size of the tables if no reader was there.
  private static func liveSize(after change: Change) throws -> UInt64 {
    let plain = try ObservedEngine(options)
    let family = try family(plain.engine)
    try change.load(plain.engine, family)
    try change.apply(to: plain.engine, family)
    try plain.engine.compact()
    defer { try? plain.engine.close() }
    return size(plain.engine)
  }

  @Test(arguments: Change.allCases, Reader.allCases)
  func `an idle family is within 1.15 of its live bytes after the last release`(
    _ change: Change, _ reader: Reader
  ) throws {
    let live = try Self.liveSize(after: change)
    let observed = try ObservedEngine(Self.options)
    let engine = observed.engine
    let family = try Self.family(engine)
    try change.load(engine, family)
    try engine.compact()
    try reader.hold(engine, family) {
      try change.apply(to: engine, family)
      try engine.compact()
      try engine.waitForCompaction()
      #expect(Self.size(engine) > live * 115 / 100, "the reader keeps what was there before")
    }
    let content = try engine.content()["f"]
    try engine.waitForCompaction()
    #expect(Self.size(engine) <= live * 115 / 100)
    #expect(try engine.content()["f"] == content)
    #expect(try engine.verify().faults.isEmpty)
    // The idle family is left alone from then on.
    let written = engine.statistics.work.bytesCompactionWritten
    try engine.waitForCompaction()
    try engine.compact()
    try engine.waitForCompaction()
    #expect(engine.statistics.work.bytesCompactionWritten - written <= live, "at most one pass of compact()")
    Self.expectNoRepeatedInput(try observed.close())
  }

  /// Checks that no table was an input for the same reason twice.
  private static func expectNoRepeatedInput(_ events: [EngineEvent]) {
    var seen: Set<String> = []
    for case .compactionBegan(let compaction) in events where !compaction.isMove {
      for table in compaction.inputs {
        #expect(seen.insert("\(compaction.reason) \(table.number)").inserted)
      }
    }
  }

  @Test func `compact() removes even a few versions that a released reader kept, and a second one writes nothing`()
    throws
  {
    let observed = try ObservedEngine(Self.options)
    let engine = observed.engine
    let family = try Self.family(engine)
    try Change.overwritten.load(engine, family)
    var snapshot: EngineSnapshot? = engine.snapshot()
    for index in 0..<20 { try engine.put(ObservedEngine.key(index * 100), [1], in: family) }
    try engine.compact()
    #expect(Self.entryCount(engine) == UInt64(Self.count) + 20)
    withExtendedLifetime(snapshot) {}
    snapshot = nil
    try engine.waitForCompaction()
    #expect(Self.entryCount(engine) == UInt64(Self.count) + 20, "too few for a rewrite by itself")
    try engine.compact()
    #expect(Self.entryCount(engine) == UInt64(Self.count))
    let written = engine.statistics.work.bytesCompactionWritten
    try engine.compact()
    #expect(engine.statistics.work.bytesCompactionWritten == written)
    Self.expectNoRepeatedInput(try observed.close())
  }

  @Test func `what a reader kept in tables is removed in an idle database that was closed in between`() throws {
    let disk = MemoryFileSystem()
    func open(_ seed: UInt64) throws -> (Engine, SteppedExecutor) {
      let executor = SteppedExecutor(seed: seed)
      let random = Mutex(SeededRandom(seed: seed))
      let engine = try Engine.open(
        at: "/db", options: Self.options,
        environment: EngineEnvironment(
          fileSystem: disk, clock: executor.clock, random: { random.withLock { $0.next() } },
          makeExecutor: { _ in executor }))
      return (engine, executor)
    }
    var (engine, executor) = try open(1)
    let family = try Self.family(engine)
    try Change.fifthDeleted.load(engine, family)
    let snapshot = engine.snapshot()
    try Change.fifthDeleted.apply(to: engine, family)
    try engine.compact()
    try engine.close()
    withExtendedLifetime(snapshot) {}
    let live = try Self.liveSize(after: .fifthDeleted)

    (engine, executor) = try open(2)
    #expect(Self.size(engine) > live * 115 / 100)
    executor.runAll()
    // A second without a write: the family is settled.
    executor.clock.advance(1_000_000_000)
    executor.runAll()
    #expect(Self.size(engine) <= live * 115 / 100)
    try engine.close()
  }

  @Test func `of several readers, the release of the oldest frees what only it needed`() throws {
    let observed = try ObservedEngine(Self.options)
    let engine = observed.engine
    let family = try Self.family(engine)
    var snapshots: [EngineSnapshot] = []
    for round in 0..<4 {
      for index in 0..<1_000 {
        try engine.put(ObservedEngine.key(index), [UInt8](repeating: UInt8(round), count: 100), in: family)
      }
      snapshots.append(engine.snapshot())
    }
    try engine.compact()
    for kept in (1...4).reversed() {
      try engine.waitForCompaction()
      #expect(Self.entryCount(engine) == UInt64(kept) * 1_000)
      for (round, snapshot) in snapshots.enumerated() {
        let value = try engine.get(ObservedEngine.key(500), in: family, snapshot: snapshot)
        #expect(value == [UInt8](repeating: UInt8(4 - kept + round), count: 100))
      }
      if !snapshots.isEmpty { snapshots.removeFirst() }
    }
    Self.expectNoRepeatedInput(try observed.close())
  }

  @Test func `a database of a table that is mostly tombstones, or of two long keys, is left alone when it is idle`()
    throws
  {
    let observed = try ObservedEngine(Self.options)
    let engine = observed.engine
    let long = [UInt8](repeating: 1, count: 60_000)
    for round in 0..<2 {
      for last: UInt8 in [1, 2] { try engine.put(long + [last], [UInt8(round)]) }
      for index in 0..<500 { try engine.delete(ObservedEngine.key(index)) }
      try engine.flush()
    }
    try engine.waitForCompaction()
    let work = engine.statistics.work
    for _ in 0..<3 { try engine.waitForCompaction() }
    #expect(engine.statistics.work.bytesCompactionWritten == work.bytesCompactionWritten)
    Self.expectNoRepeatedInput(try observed.close())
  }
}
