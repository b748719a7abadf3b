import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of an engine when a call fails, and when it is released: it must continue, and leave no files.
struct EngineFailureTests {
  private struct World {
    let disk = MemoryFileSystem()
    let faults: FaultInjectingFileSystem
    let clock = ManualClock()

    init(mapsLog: Bool = true) {
      faults = FaultInjectingFileSystem(disk, mapsFiles: mapsLog)
    }

    func open(_ options: EngineOptions = EngineTests.options()) throws -> (Engine, SteppedExecutor) {
      let executor = SteppedExecutor(seed: 3, clock: clock)
      let random = Mutex(SeededRandom(seed: 3))
      let environment = EngineEnvironment(
        fileSystem: faults, clock: clock, random: { random.withLock { $0.next() } },
        makeExecutor: { _ in executor })
      return (try Engine.open(at: "/db", options: options, environment: environment), executor)
    }

    func files(_ suffix: String) throws -> [String] { try disk.list("/db").filter { $0.hasSuffix(suffix) }.sorted() }
  }

  private func key(_ index: Int) -> [UInt8] { DamageFixture.key(index) }

  @Test func `an engine that is released without a close leaves the database whole and unlocked`() throws {
    for round in 0..<20 {
      let environment = EngineEnvironment.inMemory()
      let options = EngineTests.options()
      do {
        let engine = try Engine.open(at: "/db", options: options, environment: environment)
        // Enough writes for flushes and compactions to be in progress when the last reference is released.
        for index in 0..<4_000 { try engine.put(key(index * 7 % 4_000), [UInt8](repeating: UInt8(round), count: 100)) }
        if round % 2 == 0 { try engine.put([1], [1], durability: .powerEvery(nanoseconds: 1)) }
      }
      let again = try Engine.open(at: "/db", options: options, environment: environment)
      for index in 0..<4_000 where try again.get(key(index))?.count != 100 {
        Issue.record("round \(round): key \(index) is gone")
      }
      #expect(try again.verify().faults.isEmpty)
      try again.close()
    }
  }

  @Test func `batches and tickets keep the database open after the last reference to the engine`() throws {
    let environment = EngineEnvironment.inMemory()
    func open() throws -> Engine { try Engine.open(at: "/db", environment: environment) }
    func makeBatch() throws -> IndexedWriteBatch {
      let engine = try open()
      try engine.put([1], [1])
      return IndexedWriteBatch(engine)
    }
    func makeTicket() throws -> CommitTicket {
      let engine = try open()
      var batch = WriteBatch()
      try batch.put([2], [2])
      return try engine.submit(batch, durability: .power)
    }
    func expectLocked() { #expect(throws: EngineError.self) { try open() } }
    do {
      var batch = try makeBatch()
      expectLocked()
      try batch.put([3], [3])
      #expect(try batch.get([1]) == [1])
      #expect(try batch.get([3]) == [3])
    }
    do {
      let ticket = try makeTicket()
      expectLocked()
      try ticket.wait()
    }
    let engine = try open()
    #expect(try engine.multiGet([[1], [2], [3]]) == [[1], [2], nil])
    try engine.close()
  }

  @Test func `reopening leaves one segment of the log, whatever was written between`() throws {
    let world = World()
    for round in 0..<30 {
      let (engine, _) = try world.open()
      if round % 3 == 0 { try engine.put(key(round), [UInt8(round)]) }
      if round == 10 { _ = try engine.createFamily("other") }
      if round % 5 == 0 && round >= 10 { try engine.put(key(round), [9], in: try engine.family(named: "other")) }
      for earlier in stride(from: 0, through: round, by: 3) {
        #expect(try engine.get(key(earlier)) == [UInt8(earlier)], "round \(round)")
      }
      try engine.close()
      #expect(try world.files(".log").count == 1, "round \(round)")
    }
    #expect(try world.files(".sst").isEmpty, "a few entries are not worth a table at each close")
  }

  @Test func `a process that dies again and again leaves no chain of empty segments`() throws {
    let world = World()
    for _ in 0..<20 { _ = try world.open() }
    let (engine, _) = try world.open()
    #expect(try world.files(".log").count <= 3)
    try engine.close()
  }

  @Test(arguments: [false, true])
  func `the log continues in another segment after a header could not be written`(leavesFile: Bool) throws {
    let world = World(mapsLog: false)
    let (engine, executor) = try world.open()
    try engine.put(key(0), [UInt8](repeating: 1, count: 1_000))
    let current = engine.core.pipeline.log.currentNumber
    executor.runAll()
    let next = try #require(try world.files(".log").last)
    world.faults.inject(Fault([.write], pathSuffix: next, writesHalf: true))
    if leavesFile { world.faults.inject(Fault([.remove], pathSuffix: next)) }
    var failed = 0
    for index in 1..<3_000 {
      do { try engine.put(key(index), [UInt8](repeating: 1, count: 1_000)) } catch { failed = index }
      if failed > 0 { break }
    }
    #expect(failed > 0 && engine.core.pipeline.log.currentNumber == current)
    // A smaller record still fits into the old segment; then the log continues in another one.
    for index in failed..<3_000 { try engine.put(key(index), [UInt8](repeating: 2, count: 100)) }
    try engine.sync()
    #expect(engine.core.pipeline.log.currentNumber > current)
    world.faults.clear()
    // The engine is not closed, as if the process had died.
    let image = try DirectoryImage(world.disk)
    withExtendedLifetime(engine) {}
    let again = try Engine.open(
      at: "/db", options: EngineTests.options(),
      environment: DirectoryImage.environment(try image.makeFileSystem()))
    for index in 0..<3_000 where try again.get(key(index)) == nil { Issue.record("key \(index) is gone") }
    try again.close()
  }

  @Test func `a segment header with only one intact copy is whole after recovery`() throws {
    let world = World()
    let (engine, _) = try world.open(EngineTests.options(memtableSize: 4 << 20))
    let gone = try engine.createFamily("gone")
    let first = engine.core.pipeline.log.currentNumber
    var index = 0
    while engine.core.pipeline.log.currentNumber == first {
      try engine.put(key(index), [UInt8](repeating: 1, count: 1_000), in: gone)
      index += 1
    }
    // The entries of the first segment are obsolete now: the next recovery records the second segment as the oldest.
    try engine.put(key(1), [1])
    try engine.dropFamily(gone)
    var image = try DirectoryImage(world.disk)
    withExtendedLifetime(engine) {}
    let second = FileName.log(engine.core.pipeline.log.currentNumber).name
    image.files[second]?[LogFormat.headerCopyOffset + 10] ^= 1
    for _ in 0..<3 {
      let disk = try image.makeFileSystem()
      let again = try Engine.open(
        at: "/db", options: EngineTests.options(), environment: DirectoryImage.environment(disk))
      #expect(try again.get(key(1)) == [1])
      // As if the process had died at this point.
      image = try DirectoryImage(disk)
      withExtendedLifetime(again) {}
    }
    #expect(image.files[second] != nil)
  }

  @Test func `once commits are accepted again, a family whose drop failed is kept, also after a crash`() throws {
    let world = World()
    let (engine, _) = try world.open()
    let other = try engine.createFamily("other")
    try engine.put(key(1), [1], in: other, durability: .power)
    // The edit is written, but since no sync succeeds, it is unknown whether it is effective.
    world.faults.inject(Fault([.sync], count: Fault.always))
    #expect(throws: EngineError.self) { try engine.dropFamily(other) }
    #expect(throws: EngineError.self, "who writes now may write into a family that is gone after a crash") {
      try engine.put(key(2), [2], in: other)
    }
    world.faults.clear()
    try engine.resume()
    try engine.put(key(2), [2], in: other, durability: .power)
    // As if the process had died at this point.
    let disk = try DirectoryImage(world.disk).makeFileSystem()
    withExtendedLifetime(engine) {}
    let again = try Engine.open(
      at: "/db", options: EngineTests.options(), environment: DirectoryImage.environment(disk))
    let found = again.families.first { $0.name == "other" }
    #expect(found != nil, "the family went with a drop that was reported as failed")
    if let found { #expect(try again.multiGet([key(1), key(2)], in: found) == [[1], [2]]) }
    try again.close()
  }

  @Test func `tables whose files were exchanged are reported as corruption`() throws {
    let world = World()
    let (engine, _) = try world.open()
    // Identifiers are random, and small ones take a byte less: two of thirty tables have the same size.
    for number in 0..<30 {
      try engine.put(key(1), [UInt8](repeating: UInt8(number), count: 100), in: try engine.createFamily("\(number)"))
    }
    try engine.flush()
    let sizes = try world.files(".sst").map { try world.disk.attributes("/db/" + $0)?.size }
    try engine.close()
    let tables = try world.files(".sst").map { "/db/" + $0 }
    let second = try #require(sizes.indices.dropFirst().first { sizes[..<$0].contains(sizes[$0]) })
    let first = try #require(sizes.firstIndex(of: sizes[second]))
    try world.disk.rename(tables[first], to: "/db/x")
    try world.disk.rename(tables[second], to: tables[first])
    try world.disk.rename("/db/x", to: tables[second])
    let (again, _) = try world.open()
    var wrong = 0
    for number in 0..<30 {
      do throws(EngineError) {
        let value = try again.get(key(1), in: try again.family(named: "\(number)"))
        #expect(value == [UInt8](repeating: UInt8(number), count: 100), "a wrong answer")
      } catch {
        #expect(error.code == .corruption)
        wrong += 1
      }
    }
    #expect(wrong == 2)
    try again.close()
  }

  @Test func `an end record that can't be written does not stop the engine`() throws {
    let world = World(mapsLog: false)
    let (engine, executor) = try world.open()
    executor.runAll()
    try engine.put(key(1), [1], durability: .power)
    // The fault is limited to the current segment, because the next one is being prepared, too.
    let current = FileName.log(engine.core.pipeline.log.currentNumber).name
    world.faults.inject(Fault([.write], pathSuffix: current, code: .noSpace))
    world.clock.advance(1_000_000_000)
    executor.runAll()
    #expect(world.faults.failureCount == 1)
    try engine.put(key(2), [2], durability: .power)
    try engine.close()
    let (again, _) = try world.open()
    #expect(try again.get(key(1)) == [1] && again.get(key(2)) == [2])
    try again.close()
  }

  @Test func `a batch that is submitted with a sync interval is synced without a waiting caller`() throws {
    let world = World()
    let (engine, executor) = try world.open()
    var batch = WriteBatch()
    try batch.put(key(1), [1])
    let ticket = try engine.submit(batch, durability: .powerEvery(nanoseconds: 1_000_000))
    #expect(engine.durableSequence < ticket.sequence)
    world.clock.advance(2_000_000)
    executor.runAll()
    #expect(engine.durableSequence >= ticket.sequence)
    try engine.close()
  }

  @Test func `a flush continues when there is space again, and its failures leave no files`() throws {
    let world = World()
    let (engine, executor) = try world.open()
    for index in 0..<100 { try engine.put(key(index), [1]) }
    // The MANIFEST fails: after its write, it is unknown whether the edit is effective.
    for kind in [Fault.Kind.sync, .write] {
      world.faults.inject(Fault([kind], pathSuffix: "MANIFEST-000001", code: .noSpace))
      world.faults.inject(Fault([kind], pathSuffix: "MANIFEST-000002", code: .noSpace))
    }
    world.faults.inject(Fault([.createFile], pathSuffix: ".sst", count: 3, code: .noSpace))
    var failures = 0
    while failures < 20 {
      do {
        try engine.flush()
        break
      } catch { failures += 1 }
    }
    #expect(failures > 0 && failures < 20)
    world.faults.clear()
    try engine.flush()
    executor.runAll()
    #expect(try engine.get(key(5)) == [1])
    let live = engine.statistics.levels.reduce(0) { $0 + $1.fileCount }
    let files = try world.files(".sst")
    #expect(files.count == live, "\(files)")
    try engine.close()
  }

  @Test func `a flush splits its output at the bounds of the base level's tables`() throws {
    var options = EngineTests.options(memtableSize: 1 << 20)
    options.compression = .none
    let (engine, executor) = try World().open(options)
    let count = 30_000
    for index in 0..<count { try engine.put(key(index * 7_919 % count), [UInt8](repeating: 1, count: 400)) }
    try engine.compact()
    for index in 0..<1_900 { try engine.put(key(index * 7_919 % count), [UInt8](repeating: 2, count: 400)) }
    let before = engine.statistics.levels[0].fileCount
    let state = engine.defaultFamily.state
    engine.core.pipeline.lead { engine.core.pipeline.memory.freeze(state, $0) }
    while !state.frozen.isEmpty, executor.step(named: "flush") {}
    #expect(before == 0 && engine.statistics.levels[0].fileCount > 1)
    executor.runAll()
    try engine.close()
  }

  @Test func `the last level can have a compression of its own`() throws {
    var sizes: [UInt64] = []
    for last in [nil, CompressionKind.zstd, CompressionKind.none] {
      var options = EngineTests.options()
      options.blockSize = 16 << 10
      options.lastLevelCompression = last
      let (engine, _) = try World().open(options)
      // The keys are written in two rounds, so that a merge writes the last level: a table that is only moved there
      // is not rewritten.
      for index in (0..<10_000).map({ $0 * 7_919 % 5_000 }) {
        try engine.put(key(index), Array("the same words in each value \(index), and a number".utf8))
      }
      try engine.compact()
      #expect(try engine.get(key(4_999)) != nil)
      sizes.append(UInt64(engine.statistics.levels[6].bytes))
      try engine.close()
    }
    #expect(sizes[1] < sizes[0] && sizes[0] < sizes[2], "\(sizes)")
  }
}
