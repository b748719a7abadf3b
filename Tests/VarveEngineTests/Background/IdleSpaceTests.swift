import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests that an idle database gives the space of what was deleted back by itself, once.
struct IdleSpaceTests {
  /// What is deleted, and how.
  enum Form: String, CaseIterable {
    case everyKey, everySecondKey, singleDeletes, oneRange, manyRanges, largeRows, everyKeyTwice

    /// The share of the tables that may be left, in percent.
    var percentLeft: UInt64 { self == .everySecondKey ? 60 : 5 }

    /// The bytes of a row's value.
    func size(_ number: Int) -> Int {
      guard self == .largeRows else { return 8_192 }
      return number % 20 == 0 ? 100_000 : 50
    }

    func deletes(_ number: Int) -> Bool {
      switch self {
      case .everySecondKey: number % 2 == 0
      case .largeRows: number % 20 == 0
      default: true
      }
    }

    func load(_ engine: Engine, _ family: ColumnFamily) throws {
      for number in 0..<IdleSpaceTests.rowCount {
        try engine.put(
          ObservedEngine.key(number), [UInt8](repeating: UInt8(number % 251), count: size(number)), in: family)
      }
    }

    func delete(_ engine: Engine, _ family: ColumnFamily) throws {
      let count = IdleSpaceTests.rowCount
      switch self {
      case .oneRange:
        try engine.deleteRange(from: ObservedEngine.key(0), to: ObservedEngine.key(count), in: family)
      case .manyRanges:
        for number in stride(from: 0, to: count, by: 10) {
          try engine.deleteRange(from: ObservedEngine.key(number), to: ObservedEngine.key(number + 10), in: family)
        }
      case .singleDeletes:
        for number in 0..<count { try engine.singleDelete(ObservedEngine.key(number), in: family) }
      case .everyKeyTwice:
        for number in 0..<count { try engine.delete(ObservedEngine.key(number), in: family) }
        try engine.flush()
        for number in 0..<count { try engine.delete(ObservedEngine.key(number), in: family) }
      default:
        for number in 0..<count where deletes(number) { try engine.delete(ObservedEngine.key(number), in: family) }
      }
    }

    /// The number of keys that are left.
    var countLeft: Int { (0..<IdleSpaceTests.rowCount).count { !deletes($0) } }
  }

  private static let rowCount = 2_000

  private static func options(memtableSize: Int = 1 << 20) -> EngineOptions {
    var options = SmallEngine.options(memtableSize: memtableSize)
    options.compression = CompressionKind.none
    options.deadRunMinimum = 0
    return options
  }

  /// Lets the engine be idle.
  private static func idle(_ executor: SteppedExecutor, seconds: Int = 120) {
    for _ in 0..<seconds {
      executor.runAll()
      executor.clock.advance(1_000_000_000)
    }
    executor.runAll()
  }

  /// Returns the bytes of the files of tables, which include those that nothing names any more.
  private static func fileBytes(_ fileSystem: some FileSystem) throws -> UInt64 {
    try fileSystem.list("/db").reduce(0) { sum, name in
      guard case .table = FileName(name) else { return sum }
      return sum + (try fileSystem.attributes("/db/" + name)?.size ?? 0)
    }
  }

  private static func count(_ engine: Engine, _ family: ColumnFamily? = nil) throws -> Int {
    var cursor = try engine.cursor(in: family)
    try cursor.seekToFirst()
    var count = 0
    while cursor.isValid {
      count += 1
      try cursor.next()
    }
    return count
  }

  /// Checks that the engine does nothing more.
  private static func expectQuiet(_ engine: Engine, _ executor: SteppedExecutor) {
    let work = engine.statistics.work
    idle(executor, seconds: 300)
    #expect(engine.statistics.work.bytesCompactionWritten == work.bytesCompactionWritten)
    #expect(engine.statistics.work.bytesFlushed == work.bytesFlushed)
    expectNothingDue(executor)
  }

  /// Checks that nothing is due but the watch over the engine, which has no end.
  private static func expectNothingDue(_ executor: SteppedExecutor) {
    #expect(executor.pending.allSatisfy { $0 == "watch" }, "\(executor.pending)")
  }

  private static func expectNoRepeatedInput(_ events: [EngineEvent]) {
    var seen: Set<String> = []
    for case .compactionBegan(let compaction) in events where !compaction.isMove {
      for table in compaction.inputs {
        #expect(seen.insert("\(compaction.reason) \(table.number)").inserted)
      }
    }
  }

  @Test(arguments: Form.allCases, [true, false])
  func `an idle database has returned the space of its deletes after two minutes`(
    _ form: Form, _ flushes: Bool
  ) throws {
    // With the small memtable, the tree has two levels.
    for memtableSize in [128 << 10, 1 << 20] {
      let world = try ObservedEngine(Self.options(memtableSize: memtableSize))
      let (engine, executor) = (world.engine, world.executor)
      let family = try engine.createFamily("rows")
      try form.load(engine, family)
      try engine.flush()
      try engine.waitForCompaction()
      let before = try Self.fileBytes(world.faults)
      try form.delete(engine, family)
      if flushes { try engine.flush() }
      Self.idle(executor)
      let after = try Self.fileBytes(world.faults)
      #expect(after * 100 <= before * form.percentLeft, "\(after) of \(before) bytes, memtables of \(memtableSize)")
      #expect(try engine.space().garbageEstimatedBytes <= before / 10)
      #expect(try Self.count(engine, family) == form.countLeft)
      Self.expectQuiet(engine, executor)
      #expect(try engine.verify().faults.isEmpty)
      Self.expectNoRepeatedInput(try world.close())
    }
  }

  @Test func `a dropped family leaves nothing`() throws {
    let world = try ObservedEngine(Self.options())
    let engine = world.engine
    try Form.everyKey.load(engine, try engine.createFamily("rows"))
    try engine.flush()
    try engine.waitForCompaction()
    let before = try Self.fileBytes(world.faults)
    try engine.dropFamily(engine.family(named: "rows"))
    Self.idle(world.executor)
    #expect(try Self.fileBytes(world.faults) * 100 <= before * 5)
    Self.expectQuiet(engine, world.executor)
    _ = try world.close()
  }

  /// A reader that needs what is deleted.
  enum Reader: String, CaseIterable {
    case snapshot, cursor
  }

  @Test(arguments: [Form.everyKey, .everySecondKey, .oneRange, .largeRows], Reader.allCases)
  func `nothing is compacted in vain while a reader needs the rows, and they leave when it ends`(
    _ form: Form, _ reader: Reader
  ) throws {
    let world = try ObservedEngine(Self.options())
    let (engine, executor) = (world.engine, world.executor)
    let family = try engine.createFamily("rows")
    try form.load(engine, family)
    try engine.flush()
    try engine.waitForCompaction()
    let before = try Self.fileBytes(world.faults)
    var snapshot: EngineSnapshot? = reader == .snapshot ? engine.snapshot() : nil
    if reader == .cursor {
      var cursor = try engine.cursor(in: family)
      try cursor.seekToFirst()
      try Self.deleteAndWait(form, world, family)
      let isValid = cursor.isValid
      #expect(isValid)
    } else {
      try Self.deleteAndWait(form, world, family)
    }
    if let held = snapshot {
      #expect(try engine.get(ObservedEngine.key(0), in: family, snapshot: held)?.count == form.size(0))
    }
    snapshot = nil
    Self.idle(executor)
    let after = try Self.fileBytes(world.faults)
    #expect(after * 100 <= before * form.percentLeft, "\(after) of \(before) bytes")
    Self.expectQuiet(engine, executor)
    Self.expectNoRepeatedInput(try world.close())
  }

  /// Deletes, and checks that an idle database keeps all rows and does nothing for the deletes but a flush.
  private static func deleteAndWait(_ form: Form, _ world: ObservedEngine, _ family: ColumnFamily) throws {
    let before = try fileBytes(world.faults)
    let written = world.engine.statistics.work.bytesCompactionWritten
    try form.delete(world.engine, family)
    idle(world.executor)
    #expect(try fileBytes(world.faults) >= before)
    #expect(world.engine.statistics.work.bytesCompactionWritten == written)
  }

  // MARK: - Memtables

  @Test func `a memtable whose deletes hide little stays, and one whose deletes hide more is flushed`() throws {
    for (count, isFlushed) in [(60, false), (160, true), (400, true)] {
      let world = try ObservedEngine(Self.options())
      let engine = world.engine
      try Form.everyKey.load(engine, engine.defaultFamily)
      try engine.flush()
      try engine.waitForCompaction()
      let flushed = engine.statistics.work.bytesFlushed
      for number in 0..<count { try engine.delete(ObservedEngine.key(number * 5)) }
      Self.idle(world.executor)
      #expect((engine.statistics.work.bytesFlushed > flushed) == isFlushed, "\(count) deletes")
      #expect(try Self.count(engine) == Self.rowCount - count)
      Self.expectQuiet(engine, world.executor)
      _ = try world.close()
    }
  }

  /// Loads all rows, deletes half of them, and calls `write` every ten seconds. Returns the seconds until the space is
  /// returned, at most 300.
  private static func secondsUntilReturned(_ write: (Engine, Int) throws -> Void) throws -> Int {
    let world = try ObservedEngine(options())
    let engine = world.engine
    try Form.everyKey.load(engine, engine.defaultFamily)
    try engine.flush()
    try engine.waitForCompaction()
    let before = try fileBytes(world.faults)
    for number in 0..<1_000 { try engine.delete(ObservedEngine.key(number)) }
    var seconds = 0
    while seconds < 300, try fileBytes(world.faults) * 100 > before * 55 {
      try write(engine, seconds)
      idle(world.executor, seconds: 10)
      seconds += 10
    }
    _ = try world.close()
    return seconds
  }

  @Test func `the space of deletes returns within a minute or two beside a few puts, and soon after with more deletes`()
    throws
  {
    let puts = try Self.secondsUntilReturned { engine, round in
      try engine.put(ObservedEngine.key(5_000 + round), [1])
    }
    #expect((30...90).contains(puts))
    // The deletes may be the beginning of many, which are better flushed together.
    let deletes = try Self.secondsUntilReturned { engine, round in
      try engine.delete(ObservedEngine.key(1_500 + round))
    }
    #expect((120...200).contains(deletes))
  }

  @Test func `without deletes there is no timer, and with them it ends`() throws {
    let world = try ObservedEngine(Self.options())
    let (engine, executor) = (world.engine, world.executor)
    try world.put(0..<100)
    executor.runAll()
    #expect(!executor.pending.contains("deletes.look"))
    try engine.delete(ObservedEngine.key(5))
    executor.runAll()
    #expect(executor.pending.filter { $0 == "deletes.look" }.count == 1)
    Self.idle(executor)
    #expect(!executor.pending.contains("deletes.look"))
    // Each later delete is looked at again.
    try engine.deleteRange(from: ObservedEngine.key(6), to: ObservedEngine.key(8))
    #expect(executor.pending.contains("deletes.look"))
    Self.idle(executor)
    Self.expectNothingDue(executor)
    _ = try world.close()
  }

  // MARK: - Other processes, and opening again

  private static func open(
    _ fileSystem: some FileSystem, _ options: EngineOptions, seed: UInt64
  ) throws -> (Engine, SteppedExecutor) {
    let executor = SteppedExecutor(seed: seed)
    return (
      try Engine.open(
        at: "/db", options: options, environment: FollowFixture.environment(fileSystem, executor, seed: seed)),
      executor
    )
  }

  @Test func `deletes that only the log had return their space after the next open`() throws {
    let disk = MemoryFileSystem()
    var (engine, executor) = try Self.open(disk, Self.options(), seed: 1)
    try Form.everyKey.load(engine, engine.defaultFamily)
    try engine.flush()
    try engine.waitForCompaction()
    let before = try Self.fileBytes(disk)
    for number in 0..<1_500 { try engine.delete(ObservedEngine.key(number)) }
    try engine.close()
    (engine, executor) = try Self.open(disk, Self.options(), seed: 2)
    Self.idle(executor)
    #expect(try Self.fileBytes(disk) * 100 <= before * 30)
    #expect(try Self.count(engine) == 500)
    // A table that was written before a close is compacted after the next open.
    for number in 1_500..<2_000 { try engine.delete(ObservedEngine.key(number)) }
    try engine.flush()
    try engine.close()
    (engine, executor) = try Self.open(disk, Self.options(), seed: 3)
    Self.idle(executor)
    #expect(try Self.fileBytes(disk) * 100 <= before * 5)
    #expect(try Self.count(engine) == 0)
    try engine.close()
  }

  @Test func `a follower and a read-only engine beside it see the deletes and the space`() throws {
    let fixture = try FollowFixture()
    let engine = fixture.writer
    var random = SeededRandom(seed: 3)
    for number in 0..<Self.rowCount {
      // Random bytes, because the tables are compressed.
      try engine.put(ObservedEngine.key(number), (0..<2_000).map { _ in UInt8(truncatingIfNeeded: random.next()) })
    }
    try engine.flush()
    try engine.waitForCompaction()
    let before = try Self.fileBytes(fixture.fileSystem)
    let follower = try fixture.follow()
    var options = FollowFixture.options
    options.readOnly = true
    let (reader, _) = try Self.open(fixture.fileSystem, options, seed: 7)
    for number in 0..<Self.rowCount { try engine.delete(ObservedEngine.key(number)) }
    Self.idle(fixture.executor)
    // Every table is gone, or has a few tombstones.
    #expect(try Self.fileBytes(fixture.fileSystem) * 100 <= before * 5)
    _ = try follower.catchUp()
    #expect(try Self.count(follower.engine) == 0)
    #expect(try follower.engine.space().tableBytes * 100 <= before * 5)
    try follower.close()
    try reader.close()
    try engine.close()
  }

  // MARK: - Cost

  @Test func `a flush asks a bounded number of tables about its deletes, and reads no data`() throws {
    let disk = CountingFileSystem()
    var options = Self.options(memtableSize: 64 << 10)
    var (engine, executor) = try Self.open(disk, options, seed: 1)
    for number in 0..<6_000 { try engine.put(ObservedEngine.key(number), [UInt8](repeating: 5, count: 4_000)) }
    try engine.flush()
    try engine.waitForCompaction()
    try engine.close()
    options.memtableSize = 4 << 20
    options.compactsInBackground = false
    options.openTableCount = 16
    let tableMaximum = 4
    (engine, executor) = try Self.open(disk, options, seed: 2)
    let version = engine.defaultFamily.state.version
    try #require(version.tableCount > 2 * tableMaximum)
    var dataSizes: [String: UInt64] = [:]
    var total: UInt64 = 0
    try version.forEachTable { (table, _) throws(EngineError) in
      let path = engine.core.tree.path(.table(table.number))
      dataSizes[path] = try engine.core.tree.reader(table).footer.dataSize
      total += table.fileSize
    }
    try engine.close()
    (engine, executor) = try Self.open(disk, options, seed: 3)
    for number in 0..<6_000 { try engine.delete(ObservedEngine.key(number)) }
    let opened = disk.openedCount
    disk.recordReads()
    try engine.flush()
    let reads = disk.reads.filter { dataSizes[$0.path] != nil }
    #expect(!reads.isEmpty)
    #expect(disk.openedCount - opened <= tableMaximum)
    #expect(reads.allSatisfy { $0.offset >= dataSizes[$0.path] ?? 0 }, "a data block was read")
    let shadowed = engine.defaultFamily.state.version.levelZero.tables.reduce(0) { $0 + ($1.shadowedSize ?? 0) }
    #expect(shadowed > total / 2 && shadowed < total * 2, "\(shadowed) of \(total)")
    _ = executor
    try engine.close()
  }

  @Test func `a flush whose tables below can't be read succeeds without an estimate`() throws {
    let world = try ObservedEngine(Self.options())
    let engine = world.engine
    try Form.everyKey.load(engine, engine.defaultFamily)
    try engine.compact()
    engine.core.tree.openTables.closeAll()
    for number in 0..<100 { try engine.delete(ObservedEngine.key(number)) }
    world.faults.inject(Fault([.openFile, .read], pathSuffix: ".sst", count: Fault.always))
    try engine.flush()
    world.faults.clear()
    let flushed = try #require(engine.defaultFamily.state.version.levelZero.tables.first)
    #expect(flushed.shadowedSize == nil)
    #expect(flushed.tombstoneCount == 100)
    _ = try world.close()
  }
}
