import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests that a database on a nearly full disk gets the space of what was deleted back: with parts of compactions, and
/// if that does not help, with the reserve.
struct DeletesOnFullDiskTests {
  /// The bytes that must be free for edits of the MANIFEST, besides those of tables.
  private static let editNeed: UInt64 = 88 << 10

  /// A database on a disk that other files fill, so that a test sets the free bytes.
  private final class World {
    /// Tables are cut to a 64th of the disk.
    let disk = SizedFileSystem(capacity: 8 << 20)
    private(set) var executor = SteppedExecutor(seed: 41)
    let log = EventLog()
    private(set) var engine: Engine
    private var random: SeededRandom
    private(set) var content: [Int: [UInt8]] = [:]

    init(
      seed: UInt64 = 43, memtableSize: Int = 1 << 20, compacts: Bool = true, hasReserve: Bool = false
    ) throws {
      random = SeededRandom(seed: seed)
      engine = try Self.open(disk, executor, log, memtableSize, compacts, hasReserve)
      disk.capacity = 64 << 20
    }

    private static func open(
      _ disk: SizedFileSystem, _ executor: SteppedExecutor, _ log: EventLog, _ memtableSize: Int, _ compacts: Bool,
      _ hasReserve: Bool
    ) throws -> Engine {
      // The ids of tables must differ from those of earlier engines.
      let numbers = Mutex(SeededRandom(seed: UInt64(disk.used) + 1))
      var options = SmallEngine.options(memtableSize: memtableSize)
      options.compression = CompressionKind.none
      options.compactsInBackground = compacts
      options.listener = log
      options.reserveDatabaseMinimum = hasReserve ? 1 << 20 : .max
      return try Engine.open(
        at: "/db", options: options,
        environment: EngineEnvironment(
          fileSystem: disk, clock: executor.clock, random: { numbers.withLock { $0.next() } },
          makeExecutor: { _ in executor }))
    }

    /// Opens the database again with so many bytes free, before any background work.
    func reopen(memtableSize: Int = 1 << 20, free: UInt64) throws {
      try engine.close()
      executor = SteppedExecutor(seed: 42)
      engine = try Self.open(disk, executor, log, memtableSize, true, false)
      setFree(free)
    }

    func put(_ index: Int, size: Int) throws {
      let value = random.bytes(size)
      try engine.put(ObservedEngine.key(index), value)
      content[index] = value
    }

    /// Puts so many rows, each with one value, into the last levels.
    func load(_ count: Int, size: Int) throws {
      for index in 0..<count { try put(index, size: size) }
      try engine.flush()
      try engine.waitForCompaction()
    }

    /// Deletes keys one at a time, and flushes.
    func delete(_ keys: some Sequence<Int>) throws {
      for index in keys {
        try engine.delete(ObservedEngine.key(index))
        content[index] = nil
      }
      try engine.flush()
    }

    func setFree(_ free: UInt64) { disk.capacity = disk.used + Int(free) }

    /// Lets time pass, and does the work that becomes due.
    func pass(seconds: Int) {
      for _ in 0..<seconds {
        executor.clock.advance(1_000_000_000)
        executor.runAll()
      }
    }

    /// The bytes of all tables that the tree has.
    var tableBytes: UInt64 { engine.defaultFamily.state.version.totalSize }
    /// The bytes of the keys and values that are left.
    var liveBytes: UInt64 { content.reduce(0) { $0 + UInt64($1.value.count + ObservedEngine.key($1.key).count) } }

    /// The free bytes with which one table can be rewritten on each level, and the edit of the MANIFEST written.
    var rewriteNeed: UInt64 {
      let version = engine.defaultFamily.state.version
      func largest(_ tables: some Sequence<TableMetadata>) -> UInt64 { tables.map(\.fileSize).max() ?? 0 }
      let tables = (0..<Limits.levelCount).map { largest(version.tables(level: $0)) }.sorted().suffix(2).reduce(0, +)
      return DeletesOnFullDiskTests.editNeed + tables + tables / 16
    }

    /// Checks that the rows, and no others, are there, in tables without faults.
    func check(_ comment: Comment) throws {
      var cursor = try engine.cursor()
      try cursor.seekToFirst()
      var count = 0
      while cursor.isValid {
        count += 1
        try cursor.next()
      }
      #expect(count == content.count, comment)
      let wrong = try content.count { try engine.get(ObservedEngine.key($0.key)) != $0.value }
      #expect(wrong == 0, comment)
      #expect(try engine.verify().faults.isEmpty, comment)
    }

    /// The number of tables that were divided.
    var divisionCount: Int {
      log.events.count { event in
        if case .compactionEnded(let compaction, _) = event { compaction.reason == "division" } else { false }
      }
    }

    var acceptances: [AcceptedWrites] {
      log.events.compactMap { if case .writesChanged(let accepted) = $0 { accepted } else { nil } }
    }
  }

  @Test func `all keys are deleted with less free than a sixteenth of the tables`() throws {
    let world = try World()
    try world.load(6_000, size: 1_000)
    try world.delete(0..<6_000)
    let before = world.tableBytes
    try #require(before > 6_000_000)
    world.setFree(before / 20)
    world.pass(seconds: 120)
    #expect(world.tableBytes == 0)
    #expect(world.engine.backgroundError == nil)
    #expect(world.engine.statistics.work.failureCount == 0)
    try world.check("all deleted")
    try world.engine.close()
  }

  @Test func `every second key is deleted with less free than a sixteenth of the tables`() throws {
    let world = try World()
    try world.load(6_000, size: 1_000)
    try world.delete(stride(from: 0, to: 6_000, by: 2))
    let before = world.tableBytes
    world.setFree(before / 17)
    world.pass(seconds: 120)
    #expect(world.tableBytes < world.liveBytes * 13 / 10)
    #expect(world.engine.backgroundError == nil)
    #expect(world.engine.statistics.work.failureCount == 0)
    try world.check("every second key deleted")
    // The parts are compacted once each.
    #expect(world.engine.statistics.work.bytesCompactionWritten < 2 * before)
    try world.engine.close()
  }

  @Test func `a load without compactions, half of which is deleted, is compacted in parts`() throws {
    let world = try World(memtableSize: 256 << 10, compacts: false)
    for index in 0..<6_000 { try world.put(index * 7 % 6_000, size: 1_000) }
    try world.delete(stride(from: 0, to: 6_000, by: 2))
    let before = world.tableBytes
    let written = world.engine.statistics.work.bytesCompactionWritten
    try world.reopen(memtableSize: 256 << 10, free: before / 8)
    world.pass(seconds: 120)
    #expect(world.tableBytes < world.liveBytes * 13 / 10)
    #expect(world.engine.backgroundError == nil)
    #expect(world.engine.statistics.work.bytesCompactionWritten - written < 8 * before)
    try world.check("half deleted")
    try world.engine.close()
  }

  @Test func `the reserve is given up for a compaction that frees more, and is made again`() throws {
    let world = try World(hasReserve: true)
    try world.load(6_000, size: 1_000)
    world.pass(seconds: 10)
    try world.delete(stride(from: 0, to: 6_000, by: 2))
    let reserve = try world.engine.space().reserveBytes
    try #require(reserve > 200_000)
    world.setFree(90 << 10)
    world.pass(seconds: 4)
    #expect(try world.engine.space().reserveBytes == reserve)
    #expect(world.engine.backgroundError?.code == .noSpace)
    world.pass(seconds: 120)
    #expect(world.tableBytes < world.liveBytes * 13 / 10)
    #expect(world.engine.backgroundError == nil)
    #expect(world.engine.statistics.work.failureCount == 0)
    #expect(world.acceptances == [.deletesOnly, .all])
    #expect(try world.engine.space().reserveBytes > 0)
    try world.put(0, size: 10)
    try world.check("half deleted")
    try world.engine.close()
  }

  @Test func `the reserve is kept if what waits frees less than it has`() throws {
    let world = try World(hasReserve: true)
    try world.load(6_000, size: 1_000)
    world.pass(seconds: 10)
    let reserve = try world.engine.space().reserveBytes
    // The deletes hide a tenth of the tables with their keys, but less than the reserve.
    try world.delete(0..<Int(reserve / 2_000))
    world.setFree(66 << 10)
    world.pass(seconds: 900)
    #expect(world.engine.backgroundError?.code == .noSpace)
    #expect(try world.engine.space().reserveBytes == reserve)
    #expect(world.acceptances.isEmpty)
    try world.check("a few deleted")
    try world.engine.close()
  }

  // MARK: - Model

  /// Returns the keys that a run deletes.
  private static func deleted(_ count: Int, _ random: inout SeededRandom) -> [Int] {
    switch random.below(4) {
    case 0: return Array(0..<count)
    case 1:
      let start = random.below(count)
      return Array(start..<count)
    case 2:
      let step = 2 + random.below(4)
      return Array(stride(from: 0, to: count, by: step))
    default:
      let percent = 20 + random.below(75)
      var keys: [Int] = []
      for index in 0..<count where random.below(100) < percent { keys.append(index) }
      return keys
    }
  }

  @Test func `an idle database with deletes has a third of garbage at most, whatever is free`() throws {
    // Each mechanism is needed by some of the runs.
    var (divisionCount, reserveCount, runCount) = (0, 0, 0)
    let seedCount = UInt64(TestScale.count(60))
    for seed in 1...seedCount {
      var random = SeededRandom(seed: seed)
      let hasReserve = random.oneIn(2)
      let world = try World(seed: seed, memtableSize: (64 << 10) << random.below(5), hasReserve: hasReserve)
      let count = (hasReserve ? 4_000 : 1_500) + random.below(3_000)
      let sizes = [100 + random.below(2_000), 100 + random.below(200)]
      for index in 0..<count { try world.put(index, size: sizes[random.below(2)]) }
      try world.engine.flush()
      try world.engine.waitForCompaction()
      if random.oneIn(2) {
        // Small memtables make levels between these rows and the last level.
        let start = random.below(count)
        for index in start..<count where random.oneIn(2) { try world.put(index, size: sizes[random.below(2)]) }
        try world.engine.flush()
      }
      world.pass(seconds: 10)
      try world.delete(Self.deleted(count, &random))
      let reserve = hasReserve ? try world.engine.space().reserveBytes : 0
      let need = world.rewriteNeed
      // The reserve is given up only while less than its size is free.
      let free =
        reserve > (80 << 10)
        ? (64 << 10) + UInt64(random.below(random.oneIn(2) ? 16 << 10 : Int(reserve) - (64 << 10)))
        : need + UInt64(random.below(random.oneIn(2) ? 100_000 : 3_000_000))
      guard free + reserve >= need else { continue }
      world.setFree(free)
      let before = world.tableBytes
      world.pass(seconds: 300)
      let comment: Comment =
        "seed \(seed), \(count) rows of \(sizes), \(free) of \(need) bytes free, reserve \(reserve), \(before) bytes before"
      // A tenth of what a compaction rewrites may stay, and the blocks of a few small tables.
      let allowed = world.liveBytes * 13 / 10 + (64 << 10)
      #expect(world.tableBytes <= allowed, comment)
      // What frees less than the reserve may wait.
      if reserve == 0 { #expect(world.engine.backgroundError == nil, comment) }
      try world.check(comment)
      try world.engine.close()
      runCount += 1
      divisionCount += world.divisionCount > 0 ? 1 : 0
      reserveCount += world.acceptances.isEmpty ? 0 : 1
    }
    #expect(runCount > 0)
    #expect(divisionCount > 0)
    #expect(reserveCount > 0)
  }
}
