import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the space that a database keeps for a full disk: with it the database is opened, read and emptied when
/// there is not one byte left, and then it takes writes again.
struct SpaceReserveTests {
  /// A database of two families on a small disk, which other files can fill.
  private final class World {
    let disk = SizedFileSystem(capacity: 8 << 20)
    private(set) var executor = SteppedExecutor(seed: 31)
    private var running: Engine?
    private var second: ColumnFamily?
    private var random: SeededRandom
    private(set) var content: [[Int: [UInt8]]] = [[:], [:]]
    var options: EngineOptions

    init(seed: UInt64 = 37, _ change: (inout EngineOptions) -> Void = { _ in }) throws {
      random = SeededRandom(seed: seed)
      options = SmallEngine.options()
      options.compression = CompressionKind.none
      options.logSegmentSize = 64 << 10
      options.reserveDatabaseMinimum = 2 << 20
      change(&options)
      try open()
      second = try engine.createFamily("second")
    }

    var engine: Engine {
      get throws { try #require(running) }
    }

    func open() throws {
      executor = SteppedExecutor(seed: 31)
      let numbers = Mutex(SeededRandom(seed: UInt64(disk.used) + 1))
      let executor = executor
      let engine = try Engine.open(
        at: "/db", options: options,
        environment: EngineEnvironment(
          fileSystem: disk, clock: executor.clock, random: { numbers.withLock { $0.next() } },
          makeExecutor: { _ in executor }))
      running = engine
      second = try? engine.family(named: "second")
    }

    func close() throws {
      second = nil
      try running?.close()
      running = nil
    }

    /// Ends the engine as the death of the process would.
    func kill() {
      second = nil
      running = nil
    }

    /// Puts values under random keys until one finds no space.
    func fill() throws -> EngineError? {
      while true {
        if let error = put(random.below(1_000_000), in: random.below(2)) { return error }
        if random.below(4) == 0 { executor.step() }
      }
    }

    /// Puts a value, and returns the error if that fails.
    func put(_ key: Int, in family: Int) -> EngineError? {
      let value = random.bytes(2_000)
      do throws(EngineError) {
        try running?.put(ObservedEngine.key(key), value, in: family == 0 ? nil : second)
      } catch {
        return error
      }
      content[family][key] = value
      return nil
    }

    func deleteHalf() throws {
      try engine.deleteRange(from: ObservedEngine.key(0), to: ObservedEngine.key(500_000))
      content[0] = content[0].filter { $0.key >= 500_000 }
    }

    /// Deletes all rows, by a range in each family.
    func deleteAll() throws {
      for family in [nil, second] {
        try engine.deleteRange(from: ObservedEngine.key(0), to: ObservedEngine.key(2_000_000), in: family)
      }
      content = [[:], [:]]
    }

    func dropSecond() throws {
      try engine.dropFamily(try #require(second))
      second = nil
      content[1] = [:]
    }

    /// Lets other files take all but so many bytes.
    func leave(_ free: Int) { disk.capacity = disk.used + free }

    /// Lets time pass, and does the work that becomes due.
    func pass(seconds: Int) {
      for _ in 0..<seconds {
        executor.clock.advance(1_000_000_000)
        executor.runAll()
      }
    }

    func mismatches() throws -> Int {
      let engine = try engine
      var count = 0
      for (family, rows) in content.enumerated() where family == 0 || second != nil {
        let family = family == 0 ? nil : second
        for (key, value) in rows where try engine.get(ObservedEngine.key(key), in: family) != value { count += 1 }
        var cursor = try engine.cursor(in: family)
        try cursor.seekToFirst()
        var found = 0
        while cursor.isValid {
          found += 1
          try cursor.next()
        }
        if found != rows.count { count += 1 }
      }
      return count
    }

    var reserveSize: UInt64 { (try? disk.attributes("/db/RESERVE"))??.size ?? 0 }
  }

  /// How the program makes space.
  enum Way: CaseIterable {
    case range, family
  }

  @Test(arguments: Way.allCases, [0, 4 << 10, 64 << 10])
  func `a database that filled its disk is opened, read and emptied, and takes writes again`(
    way: Way, free: Int
  ) throws {
    let world = try World()
    let refusal = try world.fill()
    #expect(refusal?.code == .noSpace)
    #expect(world.reserveSize > 200 << 10)
    world.kill()
    world.leave(free)
    try world.open()
    #expect(try world.engine.acceptedWrites == .deletesOnly)
    #expect(try world.mismatches() == 0)
    #expect(world.put(1_000_000, in: 0)?.code == .noSpace)
    #expect(throws: EngineError.self) { try world.engine.createFamily("third") }
    switch way {
    case .range: try world.deleteHalf()
    case .family: try world.dropSecond()
    }
    let used = world.disk.used
    world.pass(seconds: 30)
    #expect(world.disk.used < used - (1 << 20), "space returns")
    #expect(try world.engine.acceptedWrites == .all)
    #expect(world.reserveSize > 200 << 10)
    for key in 1_000_000..<1_000_200 { #expect(world.put(key, in: 0) == nil) }
    #expect(try world.mismatches() == 0)
    try world.close()
    try world.open()
    #expect(try world.mismatches() == 0)
    #expect(try world.engine.verify().faults.isEmpty)
    try world.close()
  }

  @Test(arguments: [false, true])
  func `ten opens on a full disk change nothing`(kills: Bool) throws {
    let world = try World()
    _ = try world.fill()
    world.kill()
    world.leave(0)
    var sizes: [Int] = []
    for _ in 0..<10 {
      try world.open()
      #expect(try world.engine.acceptedWrites == .deletesOnly)
      #expect(try world.mismatches() == 0)
      world.pass(seconds: 7)
      if kills { world.kill() } else { try world.close() }
      sizes.append(world.disk.used)
      if !kills { world.leave(0) }
    }
    // Compactions that were due and fit in the space of the reserve have rewritten tables, which may be a little
    // larger, and an open may write an edit of the MANIFEST.
    #expect(sizes.allSatisfy { $0 <= sizes[0] + sizes[0] / 1_000 }, "\(sizes)")
    try world.open()
    try world.deleteHalf()
    world.pass(seconds: 30)
    #expect(try world.engine.acceptedWrites == .all)
    #expect(try world.mismatches() == 0)
    try world.close()
  }

  @Test(arguments: Way.allCases)
  func `an open engine whose disk is full deletes, and takes writes again`(way: Way) throws {
    let world = try World()
    _ = try world.fill()
    world.leave(0)
    #expect(world.put(1_000_000, in: 0)?.code == .noSpace)
    switch way {
    case .range: try world.deleteHalf()
    case .family: try world.dropSecond()
    }
    world.pass(seconds: 30)
    #expect(try world.engine.acceptedWrites == .all)
    #expect(world.put(1_000_000, in: 0) == nil)
    #expect(try world.mismatches() == 0)
    try world.close()
  }

  @Test(arguments: 0..<12 as Range<UInt64>)
  func `wherever the disk became full, deleting all rows by ranges returns their space`(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let world = try World(seed: seed) { $0.memtableSize = [64 << 10, 100 << 10, 128 << 10][Int(seed % 3)] }
    _ = try world.fill()
    let used = world.disk.used
    let (kills, free) = (random.below(2) == 0, random.below(3) * random.below(20_000))
    print("seed \(seed): kills \(kills), \(free) bytes free")
    if kills { world.kill() }
    world.leave(free)
    if kills { try world.open() }
    // What an open can do at first, it does before the deletes.
    if random.below(2) == 0 { world.pass(seconds: 5) }
    try world.deleteAll()
    world.pass(seconds: 60)
    #expect(try world.engine.acceptedWrites == .all)
    #expect(world.disk.used < used / 2, "\(world.disk.used) of \(used) bytes are left")
    #expect(world.put(1_000_000, in: 0) == nil)
    #expect(try world.mismatches() == 0)
    try world.close()
  }

  @Test func `a database that has become small has no reserve, and takes writes from the moment it is opened`() throws {
    let world = try World()
    _ = try world.fill()
    world.leave(0)
    #expect(world.put(1_000_000, in: 0)?.code == .noSpace)
    try world.deleteAll()
    world.pass(seconds: 60)
    #expect(try world.disk.attributes("/db/RESERVE") == nil)
    for kills in [true, false] {
      if kills { world.kill() } else { try world.close() }
      try world.open()
      #expect(try world.engine.acceptedWrites == .all)
      #expect(world.put(1_000_001, in: 0) == nil)
    }
    try world.close()
  }

  @Test func `a database whose disk has space again when it is opened takes writes at once, and makes its reserve`()
    throws
  {
    let world = try World()
    _ = try world.fill()
    world.leave(0)
    try world.engine.delete(ObservedEngine.key(1_000_000))
    #expect(try world.engine.acceptedWrites == .deletesOnly)
    #expect(world.reserveSize == 0)
    world.kill()
    world.disk.capacity += 4 << 20
    try world.open()
    #expect(try world.engine.acceptedWrites == .all)
    #expect(world.put(1_000_001, in: 0) == nil)
    #expect(world.reserveSize > 200 << 10)
    #expect(try world.mismatches() == 0)
    try world.close()
  }

  @Test func `a write that is too large for the disk stops no other one`() throws {
    let world = try World()
    for key in 0..<1_500 { #expect(world.put(key, in: key % 2) == nil) }
    world.pass(seconds: 5)
    #expect(world.reserveSize > 100 << 10)
    for key in 2_000..<2_010 {
      let error = #expect(throws: EngineError.self) {
        try world.engine.put([1], [UInt8](repeating: 1, count: 16 << 20))
      }
      #expect(error?.code == .noSpace)
      #expect(try world.engine.acceptedWrites == .all)
      #expect(world.put(key, in: 0) == nil)
    }
    #expect(try world.mismatches() == 0)
    try world.close()
  }

  @Test func `a log that exceeds the memory budget is replayed without space, and the excess is reported`() throws {
    let world = try World()
    for key in 0..<1_500 { #expect(world.put(key, in: key % 2) == nil) }
    try world.engine.flush()
    world.pass(seconds: 5)
    #expect(world.reserveSize > 100 << 10)
    try world.close()
    world.options.memtableSize = 1 << 20
    try world.open()
    for key in 0..<900 { #expect(world.put(key, in: key % 2) == nil) }
    world.kill()
    world.options.memtableSize = 64 << 10
    world.options.memoryBudget = 1 << 20
    world.options.cacheSize = 0
    world.leave(0)
    try world.open()
    #expect(try world.engine.acceptedWrites == .deletesOnly)
    #expect(try world.engine.statistics.memory.excess > 0)
    #expect(try world.engine.explain().contains("no space to flush what it replayed"))
    #expect(try world.mismatches() == 0)
    world.kill()
  }

  @Test func `a batch that deletes may put as much as an object's other entries need`() throws {
    let key = [UInt8](repeating: 7, count: 20)
    func frees(deletes: Int, puts: Int, own: Int = 0) throws -> Bool {
      var batch = WriteBatch()
      for index in 0..<deletes { try batch.delete(key + [UInt8(index)]) }
      if puts > 0 { try batch.put([1], [UInt8](repeating: 1, count: puts - 1)) }
      let end = batch.byteCount
      if own > 0 { try batch.put([2], [UInt8](repeating: 1, count: own)) }
      return CommitPipeline.putBytes(onFullDisk: batch.payload.view, ownByteCount: batch.byteCount - end) == puts
    }
    #expect(try frees(deletes: 1, puts: 0))
    #expect(try !frees(deletes: 0, puts: 0))
    #expect(try !frees(deletes: 0, puts: 10))
    #expect(try frees(deletes: 1, puts: 4_096 + 256 + 2 * 21))
    #expect(try !frees(deletes: 1, puts: 4_096 + 256 + 2 * 21 + 1))
    #expect(try frees(deletes: 10, puts: 4_096 + 10 * (256 + 2 * 21), own: 100_000))
    #expect(try !frees(deletes: 0, puts: 0, own: 10))
  }

  @Test func `rows that are updated and moved on a full disk leave most of the reserve to deletes`() throws {
    let world = try World()
    _ = try world.fill()
    world.pass(seconds: 1)
    world.leave(0)
    let engine = try world.engine
    let reserve = Int(world.reserveSize)
    try #require(reserve > 0 && world.content[0].count > 100)
    var (count, bytes) = (0, 0)
    var failure: EngineError?
    while failure == nil, count < 100_000 {
      // As the row of a waiting task moves to the running ones, or an object with an index is updated.
      var batch = WriteBatch()
      try batch.delete(ObservedEngine.key(2_000_000 + count))
      try batch.put(ObservedEngine.key(2_000_001 + count), [UInt8](repeating: 1, count: 100))
      do throws(EngineError) {
        try engine.write(batch)
        count += 1
        bytes += 100 + ObservedEngine.key(0).count
      } catch {
        failure = error
      }
    }
    #expect(failure?.code == .noSpace)
    #expect(count > 0)
    // The reserve is as large as a database somewhat smaller than this one needs.
    #expect(bytes <= reserve / 3)
    // Those without puts are still accepted, and return their space.
    for key in world.content[0].keys.sorted().prefix(100) { try engine.delete(ObservedEngine.key(key)) }
    try world.deleteAll()
    try engine.deleteRange(from: ObservedEngine.key(2_000_000), to: ObservedEngine.key(3_000_000))
    world.pass(seconds: 60)
    #expect(engine.acceptedWrites == .all)
    #expect(world.put(1, in: 0) == nil)
    #expect(try world.mismatches() == 0)
    try world.close()
  }

  @Test func `a small database keeps no reserve, and a read-only open makes none`() throws {
    let world = try World()
    world.pass(seconds: 10)
    #expect(try world.disk.attributes("/db/RESERVE") == nil)
    try world.close()
  }
}
