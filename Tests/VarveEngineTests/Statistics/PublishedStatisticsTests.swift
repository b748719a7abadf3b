import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// Tests of `STATS`: the statistics that an engine publishes, and how they are read.
struct PublishedStatisticsTests {
  /// Opens an engine on the real disk, with stepped background work.
  private static func open(_ path: String, publishes: Bool = true) throws -> (Engine, SteppedExecutor) {
    let executor = SteppedExecutor(seed: 1)
    var environment = EngineEnvironment.system
    environment.clock = executor.clock
    environment.makeExecutor = { _ in executor }
    var options = EngineTests.options()
    options.publishesStatistics = publishes
    return (try Engine.open(at: path, options: options, environment: environment), executor)
  }

  private static func hasFile(_ path: String) throws -> Bool {
    try PosixFileSystem().attributes(path + "/STATS") != nil
  }

  @Test func `an engine publishes changed statistics once a second, and removes them at its close`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let (engine, executor) = try Self.open(path)
    executor.runAll()
    let first = try #require(try PublishedStatistics.read(at: path))
    #expect(first.isRunning && first.processID == ProcessIdentity.current.number && first.updateCount == 1)
    #expect(first.databaseID == engine.statistics.databaseID)
    for _ in 0..<5 {
      executor.clock.advance(1_000_000_000)
      executor.runAll()
    }
    #expect(try PublishedStatistics.read(at: path)?.updateCount == 1, "nothing changed")
    try engine.put([1], [1])
    executor.runAll()
    #expect(try PublishedStatistics.read(at: path)?.updateCount == 1, "no second has passed")
    executor.clock.advance(1_000_000_000)
    executor.runAll()
    let second = try #require(try PublishedStatistics.read(at: path))
    #expect(second.updateCount == 2 && second.nanoseconds == executor.clock.now())
    #expect(second.json == engine.statistics.json)
    #expect(second.json.contains("\"visibleSequence\":1"))
    #expect(try engine.verify().faults.isEmpty, "the file is one of the database's")
    try engine.close()
    #expect(try !Self.hasFile(path))
    #expect(try PublishedStatistics.read(at: path) == nil)
  }

  @Test func `a stall, a dropped event or another use of memory is published, even if nothing else changed`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let (engine, executor) = try Self.open(path)
    executor.runAll()
    func updateCount() throws -> UInt64? {
      executor.clock.advance(1_000_000_000)
      executor.runAll()
      return try PublishedStatistics.read(at: path)?.updateCount
    }
    let background = engine.core.background
    #expect(try updateCount() == 1)
    try #require(background.metrics.stalls.first).add(1_000)
    #expect(try updateCount() == 2)
    let account = background.tree.budget.account(.other)
    account.charge(1_000)
    #expect(try updateCount() == 3)
    account.charge(-1_000)
    #expect(try updateCount() == 4)
    #expect(try updateCount() == 4)
    try engine.close()
  }

  @Test func `an engine that is released removes its published statistics`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    do {
      let (engine, executor) = try Self.open(path)
      executor.runAll()
      #expect(try Self.hasFile(path))
      withExtendedLifetime(engine) {}
    }
    #expect(try !Self.hasFile(path))
  }

  @Test func `statistics of a dead process are reported as not running, and the next open removes them`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    try Self.open(path).0.close()
    // No process has this number.
    let page = StatisticsPage(
      updateCount: 7, process: ProcessIdentity(number: UInt64(Int32.max), start: 1), databaseID: 5, nanoseconds: 9,
      json: "{}")
    let file = try PosixFileSystem().createFile(path + "/STATS")
    try file.write(page.encode(), at: 0)
    file.close()
    let left = try #require(try PublishedStatistics.read(at: path))
    #expect(!left.isRunning && left.processID == UInt64(Int32.max) && left.updateCount == 7 && left.json == "{}")
    let (engine, _) = try Self.open(path, publishes: false)
    #expect(try !Self.hasFile(path))
    try engine.close()
    // The database can be opened again: the check of the lock has not taken the lock.
    try Self.open(path).0.close()
  }

  @Test func `the lock shows that an engine runs if its process can't be seen`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let (engine, executor) = try Self.open(path)
    executor.runAll()
    let name = path + "/STATS"
    var page = try #require(try StatisticsPage(readingFrom: name, PosixFileSystem()))
    page.process = ProcessIdentity(number: UInt64(Int32.max), start: 1)
    let file = try PosixFileSystem().openFile(name, writable: true)
    try file.write(page.encode(), at: 0)
    file.close()
    #expect(try PublishedStatistics.read(at: path)?.isRunning == true)
    try engine.close()
  }

  @Test func `a process that has the number of an ended process is a different one`() {
    let current = ProcessIdentity.current
    #expect(current.isAlive)
    #expect(!ProcessIdentity(number: UInt64(Int32.max), start: 0).isAlive)
    #expect(!ProcessIdentity(number: 0, start: 0).isAlive)
    #expect(!ProcessIdentity(number: .max, start: 0).isAlive)
    #if os(Linux)
      #expect(current.start > 0)
      #expect(!ProcessIdentity(number: current.number, start: current.start + 1).isAlive)
    #endif
  }

  @Test func `no statistics are published in memory, read-only, or if the options disable that`() throws {
    let environment = EngineEnvironment.inMemory()
    let inMemory = try Engine.open(at: "/db", options: EngineTests.options(), environment: environment)
    try inMemory.put([1], [1])
    try inMemory.flush()
    #expect(try PublishedStatistics.read(at: "/db", environment: environment) == nil)
    try inMemory.close()

    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let (engine, executor) = try Self.open(path, publishes: false)
    executor.runAll()
    #expect(executor.pending.isEmpty)
    #expect(try !Self.hasFile(path))
    try engine.close()
    var options = EngineTests.options()
    options.readOnly = true
    let reader = try Engine.open(at: path, options: options)
    try reader.close()
    #expect(try !Self.hasFile(path))
    let error = #expect(throws: EngineError.self) { try PublishedStatistics.read(at: directory.path) }
    #expect(error?.code == .notFound)
  }

  @Test func `destroying a database removes its published statistics`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    try Self.open(path).0.close()
    try PosixFileSystem().createFile(path + "/STATS").close()
    #expect(try PublishedStatistics.read(at: path) == nil, "an empty page says nothing yet")
    try Engine.destroy(at: path)
    #expect(try PosixFileSystem().attributes(path) == nil)
  }

  @Test func `an engine works while its statistics can't be written, and publishes them later`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.path + "/db"
    let (engine, executor) = try Self.open(path)
    // With a directory of that name, the file can be neither removed nor created.
    try PosixFileSystem().createDirectory(path + "/STATS")
    executor.runAll()
    try engine.put([1], [1])
    #expect(try engine.get([1]) == [1])
    try PosixFileSystem().removeDirectory(path + "/STATS")
    executor.clock.advance(1_000_000_000)
    executor.runAll()
    #expect(try PublishedStatistics.read(at: path)?.isRunning == true)
    try engine.close()
  }
}
