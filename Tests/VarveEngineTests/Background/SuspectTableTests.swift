import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests that a damaged table stops the compactions that need it, and no others.
struct SuspectTableTests {
  private static let keyCount = 6_000

  /// An in-memory engine with stepped background work and small tables.
  private struct World {
    let disk: any FileSystem
    let executor = SteppedExecutor(seed: 11)
    let log = EventLog()
    let engine: Engine

    /// Opens an engine, on `faulty` if it is set.
    init(_ faulty: FaultyFileSystem? = nil) throws {
      disk = faulty?.base ?? MemoryFileSystem()
      var options = EngineTests.options(memtableSize: 64 << 10)
      options.compression = CompressionKind.none
      options.blockSize = 1 << 10
      options.deadRunMinimum = 0
      options.listener = log
      let random = Mutex(SeededRandom(seed: 3))
      let executor = self.executor
      engine = try Engine.open(
        at: "/db", options: options,
        environment: EngineEnvironment(
          fileSystem: faulty ?? disk, clock: executor.clock, random: { random.withLock { $0.next() } },
          makeExecutor: { _ in executor }))
    }

    /// Returns the names of the tables in the directory, and of those in the version.
    func files() throws -> (found: [String], named: [String]) {
      var named: [String] = []
      engine.core.state(of: nil).version.forEachTable { table, _ in named.append(FileName.table(table.number).name) }
      return (try disk.list("/db").filter { $0.hasSuffix(".sst") }.sorted(), named.sorted())
    }

    static func key(_ index: Int) -> [UInt8] { ObservedEngine.key(index) }
    static func value(_ round: Int) -> [UInt8] { [UInt8](repeating: UInt8(truncatingIfNeeded: round), count: 100) }

    func put(_ keys: some Sequence<Int>, round: Int) throws {
      for index in keys { try engine.put(Self.key(index), Self.value(round)) }
    }

    func tables(level: Int) -> [TableMetadata] { engine.core.state(of: nil).version.tables(level: level) }

    var levelZeroDepth: Int { engine.core.state(of: nil).version.levelZero.depth }
    var failureCount: UInt64 { engine.statistics.work.failureCount }

    /// Flips a bit of a byte. A second call restores the byte.
    func flip(_ table: TableMetadata, at offset: UInt64) throws {
      let file = try disk.openFile(engine.core.tree.path(.table(table.number)), writable: true)
      defer { file.close() }
      var byte: [UInt8] = [0]
      _ = try file.read(into: &byte, at: offset)
      byte[0] ^= 4
      try file.write(byte, at: offset)
    }

    /// Damages the table in the middle of the last level, and returns it.
    func damageLastLevel() throws -> TableMetadata {
      let tables = tables(level: Limits.levelCount - 1)
      #expect(tables.count >= 4)
      let table = tables[tables.count / 2]
      try flip(table, at: table.fileSize / 2)
      return table
    }

    /// Overwrites all keys until a compaction has met the damage.
    func meetDamage() throws {
      for round in 100..<140 {
        try put(0..<keyCount, round: round)
        try engine.flush()
        executor.runAll()
        if !engine.statistics.damagedBlocks.isEmpty { return }
      }
    }
  }

  @Test func `tables above a damaged table are compacted, and no writer waits for the damaged table`() throws {
    let world = try World()
    let engine = world.engine
    try world.put(0..<Self.keyCount, round: 1)
    try engine.compact()
    let damaged = try world.damageLastLevel()
    try world.meetDamage()
    let block = try #require(engine.statistics.damagedBlocks.first)
    #expect(block.table == damaged.number.value && block.level == Limits.levelCount - 1)
    #expect(block.offset.map { $0 <= damaged.fileSize / 2 && $0 + 2048 > damaged.fileSize / 2 } ?? false)
    #expect(world.failureCount == 1)

    for round in 140..<180 {
      try world.put(0..<Self.keyCount, round: round)
      try engine.flush()
      world.executor.runAll()
      #expect(world.levelZeroDepth <= 12, "round \(round)")
      #expect(engine.core.background.controller.isFree, "round \(round)")
      let debt = engine.core.background.compactions.measureDebt()
      #expect(debt.depth <= 12 && debt.debtBytes <= 2 << 20, "round \(round): \(debt)")
    }
    #expect(world.failureCount == 1, "no compaction needed the table again")
    #expect(engine.statistics.damagedBlocks == [block])
    #expect(world.tables(level: Limits.levelCount - 1).contains { $0.number == damaged.number })
    try engine.waitForCompaction()
    // Every key was written since then: newer entries hide the damaged ones.
    for index in 0..<Self.keyCount { #expect(try engine.get(World.key(index)) == World.value(179)) }
    #expect(engine.explain().contains("damaged: \(block)"))
    #expect(engine.backgroundError?.code == .corruption)
    #expect(engine.statistics.json.contains("\"damagedBlocks\":[{\"family\":\"default\",\"table\":\(damaged.number)"))
    try engine.close()
    let found = world.log.events.filter { if case .damageFound = $0 { true } else { false } }
    #expect(found.count == 1)
  }

  @Test func `a damaged table of level 0 is kept, and newer tables are merged above it`() throws {
    let world = try World()
    let engine = world.engine
    try world.put(0..<Self.keyCount, round: 1)
    try engine.compact()
    // All newer tables of the column overlap the damaged one.
    try world.put(1_000..<1_200, round: 2)
    try engine.flush()
    let damaged = try #require(world.tables(level: 0).first)
    try world.flip(damaged, at: damaged.fileSize / 3)
    for round in 3..<80 {
      try world.put(900..<1_300, round: round)
      try world.put(3_000..<3_100, round: round)
      try engine.flush()
      world.executor.runAll()
      #expect(world.levelZeroDepth <= 24, "round \(round)")
      #expect(engine.core.background.controller.isFree, "round \(round)")
    }
    #expect(world.failureCount == 1)
    #expect(world.tables(level: 0).contains { $0.number == damaged.number })
    for index in 900..<1_300 { #expect(try engine.get(World.key(index)) == World.value(79)) }
    try engine.close()
  }

  @Test func `resume reads a damaged table again, and compactions use it if it is whole`() throws {
    let world = try World()
    let engine = world.engine
    try world.put(0..<Self.keyCount, round: 1)
    try engine.compact()
    let damaged = try world.damageLastLevel()
    try world.meetDamage()
    #expect(engine.statistics.damagedBlocks.count == 1)
    let error = #expect(throws: EngineError.self) { try engine.resume() }
    #expect(error?.code == .corruption && error?.offset != nil)
    #expect(engine.statistics.damagedBlocks.count == 1)
    #expect(world.failureCount == 1, "resume looks at the table, and merges nothing")

    try world.flip(damaged, at: damaged.fileSize / 2)
    try engine.resume()
    #expect(engine.statistics.damagedBlocks.isEmpty && engine.backgroundError == nil)
    try engine.waitForCompaction()
    try engine.compact()
    for level in 0..<Limits.levelCount - 1 { #expect(world.tables(level: level).isEmpty) }
    #expect(world.failureCount == 1)
    #expect(try engine.verify().faults.isEmpty)
    try engine.close()
  }

  @Test func `a manual compaction merges all tables that it can, and then throws for the damaged table`() throws {
    let world = try World()
    let engine = world.engine
    try world.put(0..<Self.keyCount, round: 1)
    try engine.compact()
    let damaged = try world.damageLastLevel()
    let range = UserKeyRange(damaged)
    try world.put(0..<Self.keyCount, round: 2)
    for _ in 0..<2 {
      let error = #expect(throws: EngineError.self) { try engine.compact() }
      #expect(error?.code == .corruption)
      #expect(world.failureCount == 1)
      for level in 0..<Limits.levelCount - 1 {
        #expect(world.tables(level: level).allSatisfy { range.overlaps($0) }, "level \(level)")
      }
    }
    #expect(world.tables(level: 0).isEmpty)
    // A compaction of a range that does not overlap the damaged table is unaffected by it.
    try engine.compact(from: World.key(0), to: World.key(100))
    try engine.close()
  }

  @Test func `damage that is given up is reported, and older versions show again`() throws {
    let world = try World()
    let engine = world.engine
    try world.put(0..<400, round: 1)
    try engine.compact()
    for index in 0..<400 {
      if index % 2 == 0 {
        try engine.put(World.key(index), World.value(2))
      } else {
        try engine.delete(World.key(index))
      }
    }
    try engine.flush()
    let damaged = try #require(world.tables(level: 0).first)
    try world.flip(damaged, at: damaged.fileSize / 3)
    let path = engine.core.tree.path(.table(damaged.number))
    let block = DamagedBlock(
      family: "default", table: damaged.number.value, level: 0, file: path, offset: nil, message: "")
    let given = try engine.giveUp(block)
    #expect(given.file == path && given.family == "default")
    let parts = given.parts.filter(\.holdsEntries)
    let part = try #require(parts.first)
    #expect(parts.count == 1)
    #expect(part.offsets.contains(damaged.fileSize / 3))

    var lost = 0
    for index in 0..<400 {
      let expected = index % 2 == 0 ? World.value(2) : nil
      let found = try engine.get(World.key(index))
      if found == expected { continue }
      lost += 1
      #expect(found == World.value(1), "the older version of key \(index)")
      #expect(KeyBytes.compare(part.firstKey, World.key(index)) <= 0)
      #expect(KeyBytes.compare(World.key(index), part.lastKey) <= 0)
    }
    #expect(lost > 0 && UInt64(lost) == given.entryCount)
    #expect(given.hadTombstones && given.tombstoneCount > 0 && given.tombstoneCount < given.entryCount)
    #expect(given.description.contains("older versions of keys there may show again"))
    #expect(try engine.verify().faults.isEmpty)
    let error = #expect(throws: EngineError.self) { try engine.giveUp(block) }
    #expect(error?.code == .notFound)
    try engine.compact()
    try engine.close()
    let announced = world.log.events.compactMap { if case .damageGivenUp(let damage) = $0 { damage } else { nil } }
    #expect(announced == [given])
  }

  @Test func `a table is compacted again after its damage is given up, and a whole table loses no entry`() throws {
    let world = try World()
    let engine = world.engine
    try world.put(0..<Self.keyCount, round: 1)
    try engine.compact()
    _ = try world.damageLastLevel()
    try world.meetDamage()
    let block = try #require(engine.statistics.damagedBlocks.first)
    let given = try engine.giveUp(block)
    #expect(given.entryCount > 0 && !given.hadTombstones)
    #expect(engine.statistics.damagedBlocks.isEmpty && engine.backgroundError == nil)
    try engine.waitForCompaction()
    try engine.compact()
    for level in 0..<Limits.levelCount - 1 { #expect(world.tables(level: level).isEmpty) }
    let content = try engine.content()["default"] ?? []
    #expect(content.count == Self.keyCount, "all was written since")

    let whole = try #require(world.tables(level: Limits.levelCount - 1).first)
    let nothing = try engine.giveUp(
      DamagedBlock(
        family: "default", table: whole.number.value, level: Limits.levelCount - 1, file: "", offset: nil, message: ""))
    #expect(nothing.parts.isEmpty && nothing.entryCount == 0 && !nothing.hadTombstones)
    #expect(try engine.content()["default"] == content)
    #expect(try engine.verify().faults.isEmpty)
    try engine.close()
  }

  @Test func `giving up damage that fails at any write changes no entry, and succeeds once the disk works`() throws {
    let faulty = FaultyFileSystem()
    let world = try World(faulty)
    let engine = world.engine
    try world.put(0..<Self.keyCount, round: 1)
    try engine.compact()
    _ = try world.damageLastLevel()
    try world.meetDamage()
    let block = try #require(engine.statistics.damagedBlocks.first)
    world.executor.runAll()
    let before = try world.files()
    #expect(before.found == before.named)
    let content = (0..<Self.keyCount).map { try? engine.get(World.key($0)) }
    #expect(!content.contains { $0 == nil })
    var failures: [String] = []
    while failures.count < 40 {
      faulty.reset(failsAt: failures.count)
      do throws(EngineError) {
        _ = try engine.giveUp(block)
        break
      } catch {
        #expect(error.code == .inputOutput, "\(error)")
        failures.append(faulty.trace[failures.count])
      }
      faulty.reset(failsAt: nil)
      #expect(engine.statistics.damagedBlocks == [block], "\(failures)")
      #expect(try world.files().named == before.named, "\(failures)")
      for index in stride(from: 0, to: Self.keyCount, by: 97) {
        #expect(try engine.get(World.key(index)) == content[index], "\(failures)")
      }
    }
    faulty.reset(failsAt: nil)
    // The writes of the table, its directory, and the edit of the MANIFEST must each have failed once at least.
    for part in ["create 0", ".sst", "syncDirectory", "write MANIFEST", "sync MANIFEST", "rename CURRENT"] {
      #expect(failures.contains { $0.contains(part) }, "\(part) never failed: \(failures)")
    }
    #expect(engine.statistics.damagedBlocks.isEmpty)
    for index in 0..<Self.keyCount { #expect(try engine.get(World.key(index)) == content[index]) }
    #expect(try engine.verify().faults.isEmpty)
    try engine.waitForCompaction()
    world.executor.runAll()
    let after = try world.files()
    #expect(after.found == after.named, "nothing is left of the attempts")
    try engine.close()
  }

  @Test func `a table that lost its index, or its file, can be given up`() throws {
    let world = try World()
    let engine = world.engine
    try world.put(0..<Self.keyCount, round: 1)
    try engine.compact()
    let tables = world.tables(level: Limits.levelCount - 1)
    let (first, second) = (tables[1], tables[2])
    func giveUp(_ table: TableMetadata) throws -> GivenUpDamage {
      try engine.giveUp(
        DamagedBlock(
          family: "default", table: table.number.value, level: Limits.levelCount - 1, file: "", offset: nil, message: ""
        ))
    }
    // The footer is damaged: the blocks are found by their checksums.
    try world.flip(first, at: first.fileSize - 4)
    let found = try giveUp(first)
    #expect(found.entryCount == 0 && !found.parts.isEmpty && found.parts.allSatisfy { !$0.holdsEntries })
    try world.disk.remove(engine.core.tree.path(.table(second.number)))
    let missing = try giveUp(second)
    #expect(missing.entryCount == second.entryCount)
    #expect(missing.parts.first?.firstKey == second.smallestKey && missing.parts.first?.lastKey == second.largestKey)
    let left = try engine.content()["default"] ?? []
    #expect(left.count == Self.keyCount - Int(second.entryCount))
    #expect(try engine.verify().faults.isEmpty)
    try engine.close()
  }
}
