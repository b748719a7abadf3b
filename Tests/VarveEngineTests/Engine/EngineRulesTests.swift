import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of rules that only the whole engine can break: across threads, tables and restarts.
struct EngineRulesTests {
  /// The state that the threads of a test share.
  private final class Shared: Sendable {
    let engine: Engine
    let keys = (0..<200).map { DamageFixture.key($0) }
    let isDone = Atomic<Bool>(false)
    let torn = Mutex<[String]>([])
    let readCount = Atomic<Int>(0)

    init(_ engine: Engine) { self.engine = engine }

    func write(_ round: UInt8) throws {
      var batch = WriteBatch()
      for key in keys { try batch.put(key, [round]) }
      try engine.write(batch)
    }

    func readUntilDone() {
      while !isDone.load(ordering: .acquiring) {
        do throws(EngineError) {
          let snapshot = engine.snapshot()
          // A batch that becomes visible too early has only its first keys.
          let last = try engine.get(keys[199], snapshot: snapshot)
          let first = try engine.get(keys[0], snapshot: snapshot)
          if last != first { torn.withLock { $0.append("\(first ?? []) and \(last ?? [])") } }
        } catch {
          torn.withLock { $0.append("\(error)") }
        }
        readCount.add(1, ordering: .relaxed)
      }
    }
  }

  @Test func `a batch is visible to other threads whole or not at all`() throws {
    let shared = Shared(try Engine.open(at: "/db", options: DamageFixture.options(), environment: .inMemory()))
    try shared.write(0)
    let readers = (0..<2).map { _ in EngineThread(name: "reader") { shared.readUntilDone() } }
    for round in 0..<1_500 { try shared.write(UInt8(truncatingIfNeeded: round)) }
    shared.isDone.store(true, ordering: .releasing)
    for reader in readers { reader.join() }
    let torn = shared.torn.withLock { $0 }
    let count = shared.readCount.load(ordering: .relaxed)
    #expect(torn.isEmpty, "\(torn.count) of \(count) reads: \(torn.prefix(3))")
    #expect(count > 0)
    try shared.engine.close()
  }

  /// Drops a family at the moment when a job has written a table for it, and checks the remaining state.
  private func dropWithin(_ work: (Engine, ColumnFamily, _ dropsAtNextTable: () -> Void) throws -> Void) throws {
    let faults = FaultInjectingFileSystem(MemoryFileSystem())
    let clock = ManualClock()
    let random = Mutex(SeededRandom(seed: 7))
    let environment = EngineEnvironment(
      fileSystem: faults, clock: clock, random: { random.withLock { $0.next() } },
      makeExecutor: { _ in SteppedExecutor(seed: 7, clock: clock) })
    let engine = try Engine.open(at: "/db", options: EngineTests.options(), environment: environment)
    let family = try engine.createFamily("short-lived")
    for index in 0..<500 {
      try engine.put([UInt8(index & 0xff)], [1, 2, 3], in: family)
      try engine.put([UInt8(index & 0xff)], [4, 5, 6])
    }
    let isDropped = Atomic<Bool>(false)
    try work(engine, family) {
      faults.interruptNext(.sync, pathSuffix: ".sst") {
        do { try engine.dropFamily(family) } catch { Issue.record(error) }
        isDropped.store(true, ordering: .relaxed)
      }
    }
    let happened = isDropped.load(ordering: .relaxed)
    #expect(happened)
    try engine.waitForCompaction()
    #expect(engine.core.background.pipeline.memory.frozenSize == 0)
    try expectOnlyDefault(engine)
    try engine.close()
    let again = try Engine.open(at: "/db", options: EngineTests.options(), environment: environment)
    try expectOnlyDefault(again)
    try again.close()
  }

  private func expectOnlyDefault(_ engine: Engine) throws {
    #expect(engine.families.map(\.name) == ["default"])
    #expect(try engine.get([9]) == [4, 5, 6])
    let report = try engine.verify()
    #expect(report.faults.isEmpty, "\(report)")
  }

  @Test func `a family that is dropped during its flush leaves no data and fails no other work`() throws {
    try dropWithin { engine, _, dropAtNextTable in
      dropAtNextTable()
      try engine.flush()
    }
  }

  @Test func `a family that is dropped during its compaction leaves no data and fails no other work`() throws {
    try dropWithin { engine, family, dropAtNextTable in
      try engine.flush()
      for index in 0..<500 { try engine.put([UInt8(index & 0xff)], [7], in: family) }
      try engine.flush()
      dropAtNextTable()
      let error = #expect(throws: EngineError.self) { try engine.compact(family: family) }
      #expect(error?.code == .familyDropped)
    }
  }

  @Test func `a commit that arrives after the engine was drained for a close is refused`() throws {
    let environment = EngineEnvironment.inMemory()
    let engine = try Engine.open(at: "/db", options: DamageFixture.options(), environment: environment)
    try engine.put([1], [1])
    // A close without its first step, which stops the program at calls that begin later.
    try engine.core.background.drainAndClose()
    let error = #expect(throws: EngineError.self) { try engine.put([2], [2]) }
    #expect(error?.code == .readOnly)
    #expect((error?.cause as? EngineError)?.message.contains("closed") == true)
    engine.core.fileLock?.release()
    let reopened = try Engine.open(at: "/db", options: DamageFixture.options(), environment: environment)
    #expect(try reopened.get([1]) == [1])
    #expect(try reopened.get([2]) == nil)
    try reopened.close()
  }

  @Test func `all versions of one key stay in one table, however large`() throws {
    let seed: UInt64 = 3
    var random = SeededRandom(seed: seed)
    let engine = try Engine.open(
      at: "/db", options: DamageFixture.options(), environment: DirectoryImage.environment(MemoryFileSystem()))
    // The entries exceed a table's target size, and every version is kept by a snapshot.
    var unit = ByteWriter(capacity: 1 << 20)
    for _ in 0..<1 << 17 { unit.append(integer: random.next()) }
    var snapshots: [EngineSnapshot] = []
    for version in 0..<40 {
      var value = unit.bytes
      value[0] = UInt8(version)
      try engine.put([7], value)
      snapshots.append(engine.snapshot())
    }
    try engine.put([8], [1])
    try engine.compact()
    for (version, snapshot) in snapshots.enumerated() {
      #expect(try engine.get([7], snapshot: snapshot)?.first == UInt8(version))
    }
    #expect(try engine.verify().faults.isEmpty)
    try engine.close()
  }

  @Test
  func `without background compactions no table is compacted, no writer is slowed, and compact still works`()
    throws
  {
    var options = DamageFixture.options()
    options.memtableSize = 64 << 10
    options.compactsInBackground = false
    let engine = try Engine.open(at: "/db", options: options, environment: .inMemory())
    for round in 0..<30 {
      for index in 0..<50 { try engine.put(DamageFixture.key(index), [UInt8](repeating: UInt8(round), count: 100)) }
      try engine.flush()
    }
    try engine.waitForCompaction()
    #expect(engine.statistics.levels[0].fileCount == 30)
    #expect(engine.statistics.work.compactionCount == 0 && engine.statistics.work.moveCount == 0)
    #expect(engine.core.background.controller.isFree)
    try engine.compact()
    #expect(engine.statistics.levels[0].fileCount == 0)
    #expect(try engine.get(DamageFixture.key(7)) == [UInt8](repeating: 29, count: 100))
    try engine.close()
  }
}
