import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of a volatile family: it is like any other while the engine is open, causes no log writes, and is empty
/// afterwards.
struct VolatileFamilyTests {
  private static let path = "/db"

  static func options() -> EngineOptions {
    var options = EngineOptions()
    options.memtableSize = 64 << 10
    options.cacheSize = 1 << 20
    options.logSegmentSize = 64 << 10
    return options
  }

  static func key(_ index: Int) -> [UInt8] { Array("key\(10_000 + index)".utf8) }

  static func open(_ fileSystem: any FileSystem, seed: UInt64 = 1) throws -> (Engine, SteppedExecutor) {
    let executor = SteppedExecutor(seed: seed, clock: ManualClock(1_000_000_000))
    return (
      try Engine.open(at: path, options: options(), environment: environment(fileSystem, executor, seed: seed)),
      executor
    )
  }

  private static func environment(
    _ fileSystem: any FileSystem, _ executor: SteppedExecutor, seed: UInt64
  ) -> EngineEnvironment {
    let numbers = Mutex(SeededRandom(seed: seed))
    return EngineEnvironment(
      fileSystem: fileSystem, clock: executor.clock, random: { numbers.withLock { $0.next() } },
      makeExecutor: { _ in executor })
  }

  static func makeVolatile(_ engine: Engine, _ name: String = "volatile") throws -> ColumnFamily {
    try engine.createFamily(name, options: FamilyOptions(mergeOperator: "varve.append", isVolatile: true))
  }

  static func rows(_ engine: Engine, _ family: ColumnFamily, _ snapshot: EngineSnapshot? = nil) throws -> [[UInt8]:
    [UInt8]]
  {
    var rows: [[UInt8]: [UInt8]] = [:]
    var cursor = try engine.cursor(in: family, snapshot: snapshot)
    try cursor.seekToFirst()
    while cursor.isValid {
      rows[cursor.keyBytes] = cursor.valueBytes
      try cursor.next()
    }
    return rows
  }

  private static func tableCount(_ disk: any FileSystem) throws -> Int {
    try disk.list(path).count { $0.hasSuffix(".sst") }
  }

  // MARK: - While it is open

  @Test func `batches, snapshots, cursors and merges treat a volatile family like any other`() throws {
    let (engine, _) = try Self.open(MemoryFileSystem())
    let family = try Self.makeVolatile(engine)
    var batch = WriteBatch()
    try batch.put([1], [10], in: family)
    try batch.put([1], [11])
    try batch.merge([2], [20], in: family)
    try batch.put([1], [12], in: family)
    let sequence = try engine.write(batch)
    #expect(sequence == engine.visibleSequence)
    let snapshot = engine.snapshot()
    try engine.merge([2], [21], in: family)
    try engine.deleteRange(from: [1], to: [2], in: family)
    #expect(try Self.rows(engine, family) == [[2]: [20, 21]])
    #expect(try Self.rows(engine, family, snapshot) == [[1]: [12], [2]: [20]])
    #expect(try engine.get([1], snapshot: snapshot) == [11])
    // The same read is served from tables.
    try engine.flush()
    #expect(family.state.version.tableCount == 1)
    #expect(try Self.rows(engine, family) == [[2]: [20, 21]])
    #expect(try Self.rows(engine, family, snapshot) == [[1]: [12], [2]: [20]])
    #expect(try engine.verify().faults.isEmpty)
    try engine.close()
  }

  @Test func `a transaction conflicts over a volatile row`() throws {
    let (engine, _) = try Self.open(MemoryFileSystem())
    let family = try Self.makeVolatile(engine)
    try engine.put([1], [1], in: family)
    var transaction = engine.beginTransaction()
    #expect(try transaction.get([1], in: family) == [1])
    try transaction.put([9], [9])
    try engine.put([1], [2], in: family)
    var code: EngineError.Code?
    do throws(EngineError) { try transaction.commit() } catch { code = error.code }
    #expect(code == .conflict)
    #expect(try engine.get([9]) == nil)
    try engine.close()
  }

  // MARK: - The log

  @Test func `a mixed batch logs what a batch of its other entries would, and is found whole after a crash`() throws {
    let disk = CrashFileSystem(seed: 1)
    let (engine, _) = try Self.open(disk)
    let family = try Self.makeVolatile(engine)
    func logged(_ isMixed: Bool) throws -> UInt64 {
      let before = engine.core.pipeline.log.appendedPosition
      var batch = WriteBatch()
      for index in 0..<3 {
        if isMixed { try batch.put(Self.key(index), [UInt8](repeating: 7, count: 1_000), in: family) }
        try batch.putStamped(Self.key(index), [UInt8](repeating: 0, count: 8), at: .value(0))
        if isMixed { try batch.delete(Self.key(index), in: family) }
      }
      let sequence = try engine.write(batch)
      #expect(sequence == engine.visibleSequence)
      let stamp = try engine.get(Self.key(2))
      #expect(stamp == (0..<8).map { UInt8(truncatingIfNeeded: sequence.value >> (56 - 8 * UInt64($0))) })
      return engine.core.pipeline.log.appendedPosition - before
    }
    let plain = try logged(false)
    #expect(try logged(true) == plain)
    let last = engine.visibleSequence
    let before = try Self.rows(engine, engine.defaultFamily)
    let (again, _) = try Self.open(disk.crashImage(seed: 1, policy: .processKill), seed: 2)
    #expect(again.visibleSequence == last, "a follower of the log could never come to the commit")
    #expect(try Self.rows(again, again.defaultFamily) == before)
    #expect(try again.family(named: "volatile").id == family.id)
    #expect(try Self.rows(again, try again.family(named: "volatile")).isEmpty)
    try again.close()
    try engine.close()
  }

  @Test func `the flushed entries of a mixed batch are not replayed again`() throws {
    let disk = CrashFileSystem(seed: 1)
    let (engine, _) = try Self.open(disk)
    let family = try Self.makeVolatile(engine)
    let list = try engine.createFamily("list", options: FamilyOptions(mergeOperator: "varve.append"))
    var batch = WriteBatch()
    try batch.merge([1], [7], in: list)
    for index in 0..<5 { try batch.put(Self.key(index), [1], in: family) }
    let sequence = try engine.write(batch)
    try engine.flush()
    #expect(engine.core.tree.state.families[list.id]?.flushedSequence == sequence)
    let (again, _) = try Self.open(disk.crashImage(seed: 1, policy: .processKill), seed: 2)
    #expect(try again.get([1], in: again.family(named: "list")) == [7])
    try again.close()
    try engine.close()
  }

  @Test func `a commit of volatile entries alone is not logged, and waits for no sync`() throws {
    let disk = CrashFileSystem(seed: 1)
    let (engine, _) = try Self.open(disk)
    let family = try Self.makeVolatile(engine)
    try engine.put([1], [1])
    let location = engine.core.pipeline.log.appendedPosition
    disk.failSyncs(ofPathsEndingIn: ".log")
    try engine.put([1], [2], in: family, durability: .power)
    var batch = WriteBatch()
    try batch.put([2], [3], in: family)
    try batch.deleteRange(from: [5], to: [6], in: family)
    let ticket = try engine.submit(batch, durability: .power)
    try ticket.wait()
    #expect(!ticket.isLogged)
    #expect(engine.core.pipeline.log.appendedPosition == location)
    #expect(try Self.rows(engine, family) == [[1]: [2], [2]: [3]])
    // The injected failure must have been active.
    let error = #expect(throws: EngineError.self) { try engine.put([2], [2], durability: .power) }
    #expect(error?.code == .outcomeUnknown)
    #expect(try engine.submit(batch, durability: Durability.none).isLogged == false)
    try engine.close()
  }

  @Test func `the entries that a failed sync logs again include no volatile ones`() throws {
    let disk = CrashFileSystem(seed: 1)
    let (engine, _) = try Self.open(disk)
    let family = try Self.makeVolatile(engine)
    for index in 0..<20 {
      var batch = WriteBatch()
      try batch.put(Self.key(index), [1], in: family)
      try batch.put(Self.key(index), [2])
      try engine.write(batch)
    }
    disk.failSyncs(ofPathsEndingIn: ".log")
    #expect(throws: EngineError.self) { try engine.sync() }
    #expect(engine.core.pipeline.log.generation > 0)
    let (again, _) = try Self.open(disk.crashImage(seed: 1, policy: .loseAllUnsynced), seed: 2)
    #expect(try Self.rows(again, again.defaultFamily).count == 20)
    #expect(try Self.rows(again, try again.family(named: "volatile")).isEmpty)
    try again.close()
    try engine.close()
  }

  @Test func `the log continues freeing segments while a volatile memtable is never flushed`() throws {
    let (engine, executor) = try Self.open(MemoryFileSystem())
    let family = try Self.makeVolatile(engine)
    var batch = WriteBatch()
    try batch.put([1], [1], in: family)
    try batch.put([1], [1])
    try engine.write(batch)
    let first = engine.core.pipeline.log.oldestNumber
    for round in 0..<3_000 {
      try engine.put(Self.key(round % 500), [UInt8](repeating: 1, count: 400))
      if round % 20 == 0 { executor.runAll() }
    }
    executor.runAll()
    #expect(engine.core.tree.state.oldestLog > first)
    #expect(engine.core.pipeline.bytesLoggedAgain == 0)
    // A frozen memtable that waits to be flushed needs no segment either.
    engine.core.pipeline.lead { engine.core.pipeline.memory.freeze(family.state, $0) }
    #expect(family.state.frozen.count == 1 && family.state.oldestSegment == nil)
    #expect(family.state.version.tableCount == 0)
    #expect(try engine.get([1], in: family) == [1])
    try engine.close()
  }

  // MARK: - Tables

  @Test func `tables of a volatile family are merged and read, and cost the MANIFEST and the log no byte`() throws {
    let disk = MemoryFileSystem()
    let faults = FaultInjectingFileSystem(disk)
    let (engine, executor) = try Self.open(faults)
    let family = try Self.makeVolatile(engine)
    try engine.put([1], [1])
    executor.runAll()
    faults.inject(Fault([.write, .sync], pathSuffix: "MANIFEST-000001", count: Fault.always, code: .noSpace))
    faults.inject(Fault([.write, .sync], pathSuffix: ".log", count: Fault.always, code: .noSpace))
    for round in 0..<2_000 {
      try engine.put(Self.key(round % 700), [UInt8](repeating: UInt8(round / 700), count: 400), in: family)
      if round % 50 == 0 { executor.runAll() }
    }
    try engine.waitForCompaction()
    #expect(engine.statistics.work.flushCount > 3 && engine.statistics.work.compactionCount > 0)
    #expect(family.state.version.tableCount > 0)
    let rows = try Self.rows(engine, family)
    #expect(rows.count == 700)
    #expect((0..<700).allSatisfy { rows[Self.key($0)]?.first == ($0 < 600 ? 2 : 1) })
    faults.clear()
    let state = engine.core.tree.state
    #expect(state.snapshotEdit().addedTables.isEmpty, "what a roll would write")
    #expect(state.families[family.id]?.flushedSequence == .zero)
    #expect(try ManifestTail(directory: Self.path, fileSystem: disk).state.tableCount == 0)
    // The MANIFEST contains no tables of the family, whether or not it was rolled.
    let other = try engine.createFamily("other")
    try engine.put([1], [1], in: other)
    try engine.flush()
    let found = try ManifestTail(directory: Self.path, fileSystem: disk).state
    #expect(found.family(named: "volatile")?.version.isEmpty == true)
    #expect(found.family(named: "other")?.version.tableCount == 1)
    try engine.close()
    #expect(try Self.tableCount(disk) == 2, "the default family's, and the other's")
    let (again, _) = try Self.open(disk, seed: 2)
    #expect(try Self.rows(again, try again.family(named: "volatile")).isEmpty)
    #expect(try again.get([1], in: again.family(named: "other")) == [1])
    #expect(try again.verify().faults.isEmpty)
    try again.close()
  }

  @Test func `a long close writes no table of a volatile family`() throws {
    let disk = MemoryFileSystem()
    let (engine, _) = try Self.open(disk)
    let family = try Self.makeVolatile(engine)
    try engine.put([1], [1], in: family)
    for index in 0..<500 { try engine.put(Self.key(index), [UInt8](repeating: 3, count: 900)) }
    let flushed = Mutex(0)
    let watch = engine.addListener { event in
      if case .flushBegan(let flush) = event, flush.families.contains("volatile") { flushed.withLock { $0 += 1 } }
    }
    try engine.close()
    withExtendedLifetime(watch) {}
    #expect(flushed.withLock { $0 } == 0)
    #expect(try Self.tableCount(disk) > 0)
  }

  @Test func `after a crash at any operation a volatile family is empty, and the rest of each batch is there`() throws {
    let disk = CrashFileSystem(seed: 5)
    let points = Mutex<[(point: CrashPoint, operation: String)]>([])
    let (engine, executor) = try Self.open(disk, seed: 5)
    let family = try Self.makeVolatile(engine)
    try engine.sync()
    disk.observe { operation, capture in
      let point = capture()
      points.withLock { $0.append((point, operation.description)) }
    }
    for index in 0..<40 {
      var batch = WriteBatch()
      try batch.put(Self.key(index), [UInt8](repeating: 1, count: 2_000), in: family)
      try batch.put(Self.key(index), [1])
      try batch.put(Self.key(index + 500), [2])
      try engine.write(batch)
      if index % 15 == 14 { try engine.flush() }
      executor.runAll()
    }
    try engine.compact()
    disk.observe(nil)
    try engine.close()
    let found = points.withLock { $0 }
    #expect(found.count > 80)
    var random = SeededRandom(seed: 6)
    var mostRows = 0
    for (index, entry) in found.enumerated() where index % 2 == 0 {
      let seed = random.next()
      let policy = CrashPolicy.allCases[index / 2 % CrashPolicy.allCases.count]
      let image = entry.point.image(seed: seed, policy: policy)
      let (again, _) = try Self.open(image, seed: seed)
      let location: Comment = "\(entry.operation), point \(index), \(policy)"
      #expect(try Self.rows(again, try again.family(named: "volatile")).isEmpty, location)
      let rows = try Self.rows(again, again.defaultFamily)
      mostRows = max(mostRows, rows.count)
      for number in 0..<rows.count / 2 {
        #expect(rows[Self.key(number)] == [1] && rows[Self.key(number + 500)] == [2], location)
      }
      #expect(rows.count % 2 == 0, location)
      #expect(try again.verify().faults.isEmpty, location)
      try again.close()
    }
    #expect(mostRows == 80)
  }

  // MARK: - Others who open it

  /// Creates a database with rows in tables, memtables and the log, and returns the engine, which is not closed.
  private static func makeMixed(_ disk: any FileSystem) throws -> Engine {
    let (engine, _) = try open(disk)
    let family = try makeVolatile(engine)
    for index in 0..<10 {
      var batch = WriteBatch()
      try batch.put(key(index), [1], in: family)
      try batch.put(key(index), [2])
      try engine.write(batch)
      if index == 5 { try engine.flush() }
    }
    return engine
  }

  @Test func `a checkpoint contains a volatile family without its rows`() throws {
    let disk = MemoryFileSystem()
    let engine = try Self.makeMixed(disk)
    let report = try engine.checkpoint(to: "/copy")
    #expect(report.tablesLinked + report.tablesCopied == 1)
    let copy = try Engine.open(
      at: "/copy", options: Self.options(), environment: Self.environment(disk, SteppedExecutor(seed: 3), seed: 3))
    #expect(try Self.rows(copy, copy.defaultFamily).count == 10)
    #expect(try Self.rows(copy, try copy.family(named: "volatile")).isEmpty)
    #expect(try copy.family(named: "volatile").state.isVolatile)
    try copy.close()
    try engine.close()
  }

  @Test func `a follower sees a volatile family as empty, and keeps up over commits that are in no log`() throws {
    let fixture = try FollowFixture()
    let family = try Self.makeVolatile(fixture.writer)
    let follower = try fixture.follow()
    for index in 0..<60 {
      try fixture.writer.put(Self.key(index), [UInt8](repeating: 1, count: 2_000), in: family)
      var batch = WriteBatch()
      try batch.put(Self.key(index), [1])
      try batch.put(Self.key(index), [2], in: family)
      let sequence = try fixture.writer.write(batch)
      if index % 20 == 19 { try fixture.writer.flush() }
      #expect(try follower.catchUp() == sequence)
      #expect(try follower.engine.get(Self.key(index)) == [1])
    }
    #expect(family.state.version.tableCount > 0)
    #expect(try Self.rows(follower.engine, try follower.engine.family(named: "volatile")).isEmpty)
    // A commit that other processes cannot see does not advance the follower.
    try fixture.writer.put([1], [1], in: family)
    #expect(try follower.catchUp() < fixture.writer.visibleSequence)
    try follower.close()
    try fixture.writer.close()
  }

  @Test(arguments: [true, false])
  func `a repair and a salvage of a lost MANIFEST leave a volatile family empty`(isRepair: Bool) throws {
    let disk = CrashFileSystem(seed: 1)
    let engine = try Self.makeMixed(disk)
    let image = disk.crashImage(seed: 1, policy: .processKill)
    try engine.close()
    for name in try image.list(Self.path) where name.hasPrefix("MANIFEST") { try image.remove(Self.path + "/" + name) }
    let environment = Self.environment(image, SteppedExecutor(seed: 3), seed: 3)
    var path = Self.path
    if isRepair {
      try Engine.repair(at: path, options: Self.options(), environment: environment)
    } else {
      path = "/salvaged"
      try Engine.salvage(from: Self.path, to: path, options: Self.options(), environment: environment)
    }
    let again = try Engine.open(
      at: path, options: Self.options(), environment: Self.environment(image, SteppedExecutor(seed: 4), seed: 4))
    #expect(try Self.rows(again, again.defaultFamily).count == 10)
    for family in again.families where family.id != 0 { #expect(try Self.rows(again, family).isEmpty) }
    try again.close()
  }

  // MARK: - What is stored of it

  @Test func `the volatile option persists with the others, and is announced by a required feature`() throws {
    for options in [
      FamilyOptions(isVolatile: true), FamilyOptions(compression: .zstd, mergeOperator: "varve.max", isVolatile: true),
      FamilyOptions(mergeOperator: "varve.max"), FamilyOptions(compression: CompressionKind.none),
    ] {
      #expect(try FamilyOptions(decoding: options.encoded, family: "f") == options)
    }
    // The encoding is that of versions without the option.
    #expect(FamilyOptions(compression: .lz4).encoded.count == 1)
    #expect(FamilyOptions(isVolatile: true).encoded == [255, 0, 1])
    let disk = MemoryFileSystem()
    let (engine, _) = try Self.open(disk)
    #expect(engine.core.tree.state.requiredFeatures == 0)
    let family = try Self.makeVolatile(engine)
    #expect(engine.statistics.families.map(\.isVolatile) == [false, true])
    try engine.close()
    let (again, _) = try Self.open(disk, seed: 2)
    let found = try again.family(named: "volatile")
    #expect(found.id == family.id && found.state.options == family.state.options)
    #expect(try ManifestTail(directory: Self.path, fileSystem: disk).state.requiredFeatures == 1)
    try again.dropFamily(found)
    try again.close()
  }
}
