import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests that tables are opened when they are read, and closed when too many are open.
struct OpenTablesTests {
  private static let familyCount = 10
  private static let rowsPerTable = 3

  private static func key(_ table: Int, _ row: Int) -> [UInt8] {
    [UInt8(truncatingIfNeeded: table >> 8), UInt8(truncatingIfNeeded: table), UInt8(row)]
  }

  private static func value(_ table: Int, _ family: Int) -> [UInt8] { Array("table \(table) of \(family)".utf8) }

  /// Creates a database with tables of ascending keys, which are moved down but never merged.
  private static func database(
    tablesPerFamily: Int, _ fileSystem: CountingFileSystem, openTableCount: Int
  ) throws -> Engine {
    var options = EngineOptions()
    options.memoryBudget = 16 << 20
    options.openTableCount = openTableCount
    var environment = EngineEnvironment.inMemory()
    environment.fileSystem = fileSystem
    let engine = try Engine.open(at: "/db", options: options, environment: environment)
    let families = try (0..<familyCount).map { try engine.createFamily("family \($0)") }
    for table in 0..<tablesPerFamily {
      for (number, family) in families.enumerated() {
        for row in 0..<rowsPerTable { try engine.put(key(table, row), value(table, number), in: family) }
      }
      try engine.flush()
    }
    return engine
  }

  private static func checkAll(_ engine: Engine, tablesPerFamily: Int) throws {
    for (number, family) in engine.families.dropFirst().enumerated() {
      for table in 0..<tablesPerFamily {
        #expect(try engine.get(key(table, 1), in: family) == value(table, number))
      }
    }
  }

  @Test func `two thousand tables are read through few descriptors`() throws {
    let fileSystem = CountingFileSystem()
    let engine = try Self.database(tablesPerFamily: 200, fileSystem, openTableCount: 64)
    let tableCount = engine.statistics.levels.reduce(0) { $0 + $1.fileCount }
    #expect(tableCount == 2_000)
    for _ in 0..<2 { try Self.checkAll(engine, tablesPerFamily: 200) }
    var cursorRows = 0
    for family in engine.families {
      var cursor = try engine.cursor(in: family)
      try cursor.seekToFirst()
      while cursor.isValid {
        cursorRows += 1
        try cursor.next()
      }
    }
    #expect(cursorRows == 2_000 * Self.rowsPerTable)
    #expect(fileSystem.openedCount >= 5_000)
    // A closed table is released when the next one is opened.
    #expect(fileSystem.highestCount <= 64 + 16, "\(fileSystem.highestCount) descriptors")
    #expect(engine.core.tree.openTables.count == 64)
    let charged = engine.core.tree.budget.used(.openTables)
    #expect(charged >= 64 * TableReader.memorySize && charged <= 80 * TableReader.memorySize)
    try engine.close()
    #expect(fileSystem.openCount == 0)
    #expect(engine.core.tree.budget.used(.openTables) == 0)
  }

  @Test func `a table that is read again and again stays open`() throws {
    let fileSystem = CountingFileSystem()
    let engine = try Self.database(tablesPerFamily: 20, fileSystem, openTableCount: 16)
    let families = Array(engine.families.dropFirst())
    let version = families[0].state.version
    let hot = try #require((0..<Limits.levelCount).flatMap { version.tables(level: $0) }.first).smallestKey
    _ = try engine.get(hot, in: families[0])
    var reopened = 0
    for table in 0..<20 {
      for family in families {
        _ = try engine.get(Self.key(table, 0), in: family)
        let before = engine.core.tree.openTables.openedCount
        _ = try engine.get(hot, in: families[0])
        reopened += Int(engine.core.tree.openTables.openedCount - before)
      }
    }
    #expect(reopened == 0)
    try engine.close()
  }

  @Test func `bounds that shrink close tables at once, and a held cursor continues`() throws {
    let fileSystem = CountingFileSystem()
    let engine = try Self.database(tablesPerFamily: 10, fileSystem, openTableCount: 1_000)
    // A job that ends at this moment might release a table.
    try engine.waitForCompaction()
    try Self.checkAll(engine, tablesPerFamily: 10)
    #expect(fileSystem.openCount == 100)
    do {
      var cursor = try engine.cursor(in: engine.families[1])
      try cursor.seekToFirst()
      engine.core.tree.openTables.setBounds(countMaximum: 0, bytesMaximum: 0)
      engine.core.epochs.poll()
      #expect(fileSystem.openCount == 1 && engine.core.tree.openTables.count == 0)
      var rows = 0
      while cursor.isValid {
        rows += 1
        try cursor.next()
      }
      #expect(rows == 10 * Self.rowsPerTable)
    }
    engine.core.tree.openTables.setBounds(countMaximum: 1_000, bytesMaximum: 1 << 20)
    try Self.checkAll(engine, tablesPerFamily: 10)
    try engine.close()
  }

  /// The state that the reading threads share.
  private final class Shared: Sendable {
    let engine: Engine
    let isDone = Atomic<Bool>(false)
    let readCount = Atomic<Int>(0)
    let faults = Mutex<[String]>([])

    init(_ engine: Engine) { self.engine = engine }

    func run(seed: UInt64, _ body: (inout SeededRandom) throws -> Bool) {
      var random = SeededRandom(seed: seed)
      while !isDone.load(ordering: .acquiring) {
        do {
          if try !body(&random) { faults.withLock { $0.append("a wrong answer, seed \(seed)") } }
        } catch {
          faults.withLock { $0.append("\(error), seed \(seed)") }
        }
        readCount.add(1, ordering: .relaxed)
      }
    }

    func get(_ random: inout SeededRandom, tables: Int) throws -> Bool {
      let family = random.below(familyCount)
      let table = random.below(tables)
      let found = try engine.get(key(table, random.below(rowsPerTable)), in: engine.families[family + 1])
      return found == value(table, family)
    }

    func scan(_ random: inout SeededRandom, tables: Int) throws -> Bool {
      let family = random.below(familyCount)
      var cursor = try engine.cursor(in: engine.families[family + 1])
      let first = random.below(tables)
      try cursor.seek(key(first, 0))
      for step in 0..<5 * rowsPerTable where cursor.isValid {
        let table = first + step / rowsPerTable
        let bytes = cursor.valueBytes
        if bytes != value(table, family) { return false }
        try cursor.next()
      }
      return true
    }
  }

  @Test func `tables are closed and opened again under gets and cursors`() throws {
    let fileSystem = CountingFileSystem()
    let engine = try Self.database(tablesPerFamily: 12, fileSystem, openTableCount: 16)
    let shared = Shared(engine)
    let readers = (0..<3).map { number in
      EngineThread(name: "reader") {
        shared.run(seed: UInt64(number)) { random in
          random.oneIn(4) ? try shared.scan(&random, tables: 12) : try shared.get(&random, tables: 12)
        }
      }
    }
    var random = SeededRandom(seed: 77)
    while shared.readCount.load(ordering: .relaxed) < TestScale.atMost(20_000) {
      // In some rounds all tables are closed, or the bounds leave none open.
      if random.oneIn(2) { engine.core.tree.openTables.closeAll() }
      engine.core.tree.openTables.setBounds(countMaximum: random.below(17), bytesMaximum: 1 << 20)
      try engine.put([0xff, UInt8(random.below(256))], [1])
      if random.oneIn(8) { try engine.flush() }
    }
    shared.isDone.store(true, ordering: .releasing)
    for reader in readers { reader.join() }
    let faults = shared.faults.withLock { $0 }
    #expect(faults.isEmpty, "\(faults.prefix(3))")
    try engine.close()
    #expect(fileSystem.openCount == 0)
  }
}
