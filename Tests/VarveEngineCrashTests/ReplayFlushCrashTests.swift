import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of a power loss while a log that is longer than the memory budget is replayed: at every operation of the
/// disk, from the first table that the replay writes to the edit that adds all of them.
struct ReplayFlushCrashTests {
  private static let entryCount = 1_600
  private static func open(_ disk: CrashFileSystem, memtableSize: Int, seed: UInt64) throws -> Engine {
    let executor = SteppedExecutor(seed: seed, clock: ManualClock(1_000_000_000))
    let numbers = Mutex(SeededRandom(seed: seed))
    var options = EngineOptions()
    options.memtableSize = memtableSize
    options.cacheSize = 256 << 10
    options.logSegmentSize = 256 << 10
    let environment = EngineEnvironment(
      fileSystem: disk, clock: executor.clock, random: { numbers.withLock { $0.next() } },
      makeExecutor: { _ in executor })
    return try Engine.open(at: "/db", options: options, environment: environment)
  }

  private static func key(_ index: Int) -> [UInt8] { [UInt8(index % 251), UInt8(index >> 8), UInt8(index & 0xff)] }

  private static func value(_ index: Int) -> [UInt8] { [UInt8](repeating: UInt8(index & 0xff), count: 300) }

  /// Returns a disk whose log has batches over three families, none of them in a table, all of them durable.
  ///
  /// Every fifth batch removes a key of one family; another family counts. With `copies`, a family's memtable was
  /// logged again near the end.
  private static func fill(copies: Bool = false) throws -> CrashFileSystem {
    let disk = CrashFileSystem(seed: 7)
    let engine = try open(disk, memtableSize: 8 << 20, seed: 7)
    let pair = try engine.createFamily("pair")
    let count = try engine.createFamily(
      "count", options: FamilyOptions(mergeOperator: CounterOperator().name))
    for index in 0..<entryCount {
      var batch = WriteBatch()
      try batch.put(key(index), value(index))
      try batch.put(key(index), value(index + 1), in: pair)
      if index % 5 == 4 { try batch.delete(key(index - 2), in: pair) }
      try batch.merge(counter(index), CounterOperator.bytes(1), in: count)
      if copies, index == entryCount - 100 {
        engine.core.pipeline.logBytesMaximum = engine.core.pipeline.log.neededBytes - 1
        engine.core.pipeline.lead { engine.core.pipeline.enforceLogBound($0) }
        #expect(engine.core.pipeline.bytesLoggedAgain > 64 << 10)
      }
      try engine.write(batch, durability: index == entryCount - 1 ? .power : .process)
    }
    disk.crash()
    return disk.crashImage(seed: 7, policy: .loseAllUnsynced)
  }

  private static func counter(_ index: Int) -> [UInt8] { [UInt8](repeating: UInt8(index % 100), count: 40) }

  /// Returns whether every key has its value, the counters are right, and every table is intact.
  private static func check(_ engine: Engine) throws -> Bool {
    let pair = try engine.family(named: "pair")
    let count = try engine.family(named: "count")
    for index in 0..<100 {
      guard try engine.get(counter(index), in: count) == CounterOperator.bytes(Int64(entryCount / 100)) else {
        return false
      }
    }
    for index in 0..<entryCount {
      guard try engine.get(key(index)) == value(index) else { return false }
      let isRemoved = index % 5 == 2 && index + 2 < entryCount
      guard try engine.get(key(index), in: pair) == (isRemoved ? nil : value(index + 1)) else { return false }
    }
    return try engine.verify().faults.isEmpty
  }

  private static func tableCount(_ engine: Engine) -> Int {
    engine.families.reduce(0) { $0 + $1.state.version.tableCount }
  }

  @Test func `replay flushes where frozen memtables reach their bound, and the first edit names the tables`() throws {
    let engine = try Self.open(try Self.fill(), memtableSize: 64 << 10, seed: 8)
    #expect(Self.tableCount(engine) >= 2)
    let plan = engine.core.background.plan
    #expect(engine.core.pipeline.memory.frozenSize <= plan.frozenBytesMaximum)
    #expect(engine.core.tree.budget.used(.memTables) <= plan.frozenBytesMaximum + 2 * plan.activeBytesMaximum)
    #expect(try Self.check(engine))
    try engine.close()
  }

  /// The engine is not closed: the first edit alone records what is in tables.
  @Test func `entries that a replay flushed are not replayed again`() throws {
    let disk = try Self.fill()
    _ = try Self.open(disk, memtableSize: 64 << 10, seed: 8)
    let again = try Self.open(
      disk.crashImage(seed: 8, policy: .processKill), memtableSize: 64 << 10, seed: 9)
    #expect(try Self.check(again))
    try again.close()
  }

  @Test func `a replay that flushes applies operands once although a memtable was logged again`() throws {
    let engine = try Self.open(try Self.fill(copies: true), memtableSize: 64 << 10, seed: 8)
    #expect(Self.tableCount(engine) >= 1)
    #expect(try Self.check(engine))
    try engine.close()
  }

  @Test(arguments: CrashPolicy.allCases)
  func `after a crash at any operation of a replay that flushes the next open finds the same content`(
    policy: CrashPolicy
  ) throws {
    let source = try Self.fill()
    let points = Mutex<[(CrashPoint, String)]>([])
    source.observe { operation, capture in
      let point = capture()
      points.withLock { $0.append((point, operation.description)) }
    }
    let whole = try Self.open(source, memtableSize: 64 << 10, seed: 9)
    source.observe(nil)
    let tableCount = Self.tableCount(whole)
    try whole.close()
    let recorded = points.withLock { $0 }
    // A file is created, written and synced for each table, and then their directory is synced.
    #expect(recorded.count >= 3 * tableCount + 1)
    var random = SeededRandom(seed: 10)
    for (index, (point, description)) in recorded.enumerated() {
      let seed = random.next()
      let image = point.image(seed: seed, policy: policy)
      let engine = try Self.open(image, memtableSize: random.oneIn(2) ? 64 << 10 : 8 << 20, seed: seed)
      #expect(try Self.check(engine), "point \(index), \(description), seed \(seed)")
      // Files that no edit names must be gone.
      let files = try image.list("/db").count { $0.hasSuffix(".sst") }
      #expect(files == Self.tableCount(engine), "point \(index), \(description), seed \(seed)")
      try engine.close()
    }
    print("replay that flushes, \(policy.rawValue): \(recorded.count) crash points, \(tableCount) tables")
  }

  /// Returns a disk with range deletes between puts of the same keys, in batches of which each fills several
  /// memtables of the next open. With `copies`, they were logged again after newer entries.
  private static func fillRanges(copies: Bool) throws -> (disk: CrashFileSystem, content: [[UInt8]: [UInt8]]) {
    let disk = CrashFileSystem(seed: 9)
    let engine = try open(disk, memtableSize: 8 << 20, seed: 9)
    let ranges = try engine.createFamily("ranges")
    var content: [[UInt8]: [UInt8]] = [:]
    func put(_ batch: inout WriteBatch, _ index: Int, _ byte: UInt8) throws {
      try batch.put(key(index), [byte], in: ranges)
      content[key(index)] = [byte]
    }
    func write(_ indices: Range<Int>) throws {
      var batch = WriteBatch()
      for index in indices { try put(&batch, index, 1) }
      for round in 0..<3 {
        for index in indices where index % 3 != 0 {
          try batch.deleteRange(from: key(index), to: key(index) + [UInt8(round)], in: ranges)
          content[key(index)] = nil
        }
      }
      for index in indices where index % 6 == 1 { try put(&batch, index, 2) }
      try engine.write(batch)
    }
    try write(0..<rangeCount - 100)
    for index in 0..<entryCount { try engine.put(key(index), value(index) + value(index)) }
    try engine.put(key(0), [3], in: ranges)
    content[key(0)] = [3]
    if copies {
      engine.core.pipeline.logBytesMaximum = engine.core.pipeline.log.neededBytes - 1
      engine.core.pipeline.lead { engine.core.pipeline.enforceLogBound($0) }
      #expect(engine.core.pipeline.bytesLoggedAgain > 16 << 10)
    }
    try write(rangeCount - 100..<rangeCount)
    try engine.sync()
    disk.crash()
    return (disk.crashImage(seed: 9, policy: .loseAllUnsynced), content)
  }

  private static let rangeCount = 700

  /// A memtable that is frozen within a record contains range deletes of that record, which hide what they cover.
  @Test(arguments: [false, true], [64 << 10, 256 << 10, 8 << 20])
  func `range deletes of records that fill several memtables hide the same keys after replay and flush`(
    copies: Bool, memtableSize: Int
  ) throws {
    let (disk, content) = try Self.fillRanges(copies: copies)
    let engine = try Self.open(disk, memtableSize: memtableSize, seed: 10)
    let ranges = try engine.family(named: "ranges")
    func expectContent(_ when: String) throws {
      #expect(engine.core.pipeline.memory.frozenSize >= 0)
      for index in 0..<Self.rangeCount {
        let found = try engine.get(Self.key(index), in: ranges)
        #expect(found == content[Self.key(index)], "key \(index) \(when)")
      }
    }
    try expectContent("after the replay")
    try engine.flush()
    try expectContent("after a flush")
    try engine.compact()
    try expectContent("after a compaction")
    #expect(try engine.verify().faults.isEmpty)
    try engine.close()
  }

  /// After the record, no further view of the memtables is made.
  @Test(arguments: [64 << 10, 80 << 10, 100 << 10])
  func `range deletes of a memtable that replay freezes within the last record hide the keys that they cover`(
    memtableSize: Int
  ) throws {
    let disk = CrashFileSystem(seed: 11)
    var engine = try Self.open(disk, memtableSize: 8 << 20, seed: 11)
    for index in 0..<100 { try engine.put(Self.key(index), [1]) }
    var batch = WriteBatch()
    for index in 0..<50 { try batch.deleteRange(from: Self.key(index), to: Self.key(index) + [0]) }
    for index in 100..<500 { try batch.put(Self.key(index), Self.value(index)) }
    try engine.write(batch, durability: .power)
    disk.crash()
    engine = try Self.open(disk.crashImage(seed: 11, policy: .loseAllUnsynced), memtableSize: memtableSize, seed: 12)
    #expect(!engine.defaultFamily.state.frozen.isEmpty && Self.tableCount(engine) == 0)
    for index in 0..<500 {
      let expected = index < 50 ? nil : index < 100 ? [1] : Self.value(index)
      #expect(try engine.get(Self.key(index)) == expected, "key \(index)")
    }
    try engine.close()
  }

  /// The first copies of the range deletes were removed with their segment, so that newer entries of the family
  /// precede the other copies.
  @Test func `older range deletes that come after newer entries are put in order, all of a record at once`() throws {
    let engine = try Self.open(CrashFileSystem(seed: 3), memtableSize: 64 << 10, seed: 3)
    let (memory, family) = (engine.core.pipeline.memory, engine.defaultFamily.state)
    // The order is that of a replay: older entries, newer ones, and then the range deletes between them, more than a
    // memtable can hold.
    for index in 100..<200 { try engine.put(Self.key(index), [1]) }
    let first = engine.visibleSequence.value
    for _ in 0..<2_000 { try engine.write(WriteBatch()) }
    for index in 0..<100 { try engine.put(Self.key(index), [2]) }
    let newest = engine.visibleSequence
    try engine.core.pipeline.lead { (lead) throws(EngineError) in
      for round in 0..<3 {
        let late = (0..<2_000).map { number in
          (OwnedBytes(Self.key(number)), OwnedBytes(Self.key(number) + [0]), SequenceNumber(first + UInt64(number) + 1))
        }
        // The range deletes of the first round are added twice more, as repeated copies are.
        let record = ReplayedRecord(of: engine.core.pipeline.log.currentNumber)
        for (start, end, sequence) in late {
          record.addLate((Trailer(sequence, .rangeDelete), start.view, end.view), of: family, lead)
        }
        try record.end(memory, lead)
        #expect(family.frozen.isEmpty, "round \(round)")
        #expect(family.active(lead).hasRoom(keySize: 50, valueSize: 50))
        withExtendedLifetime(late) {}
      }
    }
    let table = family.active(.beforeOpen)
    #expect(table.rangeTombstones.count == 2_000 && table.entryCount == 2_200 && table.largestSequence == newest)
    #expect(memory.frozenSize == 0)
    for index in 0..<200 { #expect(try engine.get(Self.key(index)) == (index < 100 ? [2] : nil), "key \(index)") }
    try engine.close()
  }
}
