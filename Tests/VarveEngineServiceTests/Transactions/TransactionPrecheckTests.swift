import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests that a transaction reads tables before it takes its turn to commit, and none during its turn.
struct TransactionPrecheckTests {
  private static func key(_ index: Int) -> [UInt8] { ObservedEngine.key(index) }

  private static func engine(_ disk: any FileSystem) throws -> Engine {
    var options = SmallEngine.options(memtableSize: 256 << 10)
    // Cursors write no range tombstones, so that each check reads the file.
    options.deadRunMinimum = 0
    let executor = SteppedExecutor(seed: 7)
    let random = Mutex(SeededRandom(seed: 7))
    return try Engine.open(
      at: "/db", options: options,
      environment: EngineEnvironment(
        fileSystem: disk, clock: executor.clock, random: { random.withLock { $0.next() } },
        makeExecutor: { _ in executor }))
  }

  @Test(arguments: [TransactionIsolation.serializable, .snapshot])
  func `a transaction's conflict check reads no table while it leads the commit queue`(
    _ isolation: TransactionIsolation
  ) throws {
    let disk = CountingFileSystem()
    let engine = try Self.engine(disk)
    for index in 0..<500 { try engine.put(Self.key(index), [1]) }
    var transaction = engine.beginTransaction(isolation: isolation)
    for index in 0..<100 { #expect(try transaction.get(Self.key(index)) == [1]) }
    var cursor = try transaction.cursor(bounds: CursorBounds(lower: Self.key(100), upper: Self.key(300)))
    try cursor.seekToFirst()
    while cursor.isValid { try cursor.next() }
    try transaction.deleteRange(from: Self.key(700), to: Self.key(800))
    try transaction.put(Self.key(900), [2])
    // The later entries are in tables, and are not in the transaction's read set.
    for index in 400..<450 { try engine.put(Self.key(index), [3]) }
    for index in [50, 150, 750, 890] { try engine.put(Self.key(index) + [0], [4]) }
    if isolation == .serializable {
      // This key is between the keys that were read, but in the range that was read.
      try engine.delete(Self.key(150) + [0])
    }
    try engine.flush()

    let isLed = Mutex(false)
    let pipeline = engine.core.pipeline
    disk.onRead {
      var isFree = false
      pipeline.leadIfFree { _ in isFree = true }
      if !isFree { isLed.withLock { $0 = true } }
    }
    let reads = disk.readCount
    let error = Self.commit(transaction)
    #expect(error?.code == .conflict)
    #expect(disk.readCount > reads, "the check had to read tables")
    #expect(!isLed.withLock { $0 }, "no table was read while the transaction led")
    disk.onRead(nil)
    try engine.close()
  }

  /// Returns the error that a commit throws.
  private static func commit(_ transaction: consuming OptimisticTransaction) -> EngineError? {
    do throws(EngineError) {
      try transaction.commit()
      return nil
    } catch { return error }
  }

  /// Runs the check as the leader.
  private static func lead(_ engine: Engine, _ check: TransactionCheck) throws(EngineError) {
    try engine.core.pipeline.lead { (lead) throws(EngineError) in try check.check(lead) }
  }

  /// Returns a check of one key.
  private static func check(_ engine: Engine, _ snapshot: EngineSnapshot, key index: Int) -> TransactionCheck {
    let reads = TransactionReads()
    reads.note(key(index), in: .default, named: "default")
    return TransactionCheck(engine.core, snapshot, reads)
  }

  @Test func `a write between the conflict check and the lead is found, also if it was flushed meanwhile`() throws {
    let engine = try Self.engine(CountingFileSystem())
    try engine.put(Self.key(1), [1])
    var check = Self.check(engine, engine.snapshot(), key: 1)
    try check.precheck()
    try Self.lead(engine, check)
    try engine.put(Self.key(1), [2])
    var error = #expect(throws: EngineError.self) { try Self.lead(engine, check) }
    #expect(error?.code == .conflict)

    // The write is in the memtable that the check has seen, which is a table by now.
    check = Self.check(engine, engine.snapshot(), key: 1)
    try check.precheck()
    try engine.put(Self.key(1), [3])
    try engine.flush()
    error = #expect(throws: EngineError.self) { try Self.lead(engine, check) }
    #expect(error?.code == .conflict)

    // The write is in a later memtable, which is a table by now, too: only another check finds it.
    try engine.put(Self.key(9), [0])
    check = Self.check(engine, engine.snapshot(), key: 1)
    try check.precheck()
    try engine.put(Self.key(2), [4])
    try engine.flush()
    try Self.lead(engine, check)
    try engine.put(Self.key(1), [5])
    try engine.flush()
    error = #expect(throws: EngineError.self) { try Self.lead(engine, check) }
    #expect(error?.code == .canceled && check.needsAnotherPrecheck)
    error = #expect(throws: EngineError.self) { try check.precheck() }
    #expect(error?.code == .conflict && !check.needsAnotherPrecheck)
    try engine.close()
  }

  @Test func `tables that may not come from a memtable are checked again`() throws {
    let engine = try Self.engine(CountingFileSystem())
    let check = Self.check(engine, engine.snapshot(), key: 1)
    try check.precheck()
    try engine.put(Self.key(7), [1])
    try engine.flush()
    // The family was empty, so the table might have come from an ingestion.
    let error = #expect(throws: EngineError.self) { try Self.lead(engine, check) }
    #expect(error?.code == .canceled && check.needsAnotherPrecheck)
    try check.precheck()
    try Self.lead(engine, check)
    try engine.close()
  }
}
