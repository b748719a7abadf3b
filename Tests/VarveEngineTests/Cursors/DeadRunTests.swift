import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of a cursor that passed many dead keys, over which the engine then writes one range tombstone.
struct DeadRunTests {
  private static func options(minimum: Int = 64, memtableSize: Int = 256 << 10) -> EngineOptions {
    var options = EngineTests.options(memtableSize: memtableSize)
    options.deadRunMinimum = minimum
    return options
  }

  private static func key(_ index: Int) -> [UInt8] { ObservedEngine.key(index) }

  private static func delete(_ range: Range<Int>, in engine: Engine) throws {
    for index in range { try engine.delete(key(index)) }
  }

  /// Returns the key that a new cursor finds first, or last.
  private static func first(_ engine: Engine, isLast: Bool = false, snapshot: EngineSnapshot? = nil) throws -> [UInt8]?
  {
    var cursor = try engine.cursor(snapshot: snapshot)
    if isLast { try cursor.seekToLast() } else { try cursor.seekToFirst() }
    return cursor.isValid ? cursor.keyBytes : nil
  }

  private static func end(_ cursor: consuming EngineCursor) {}

  private static func coveredRuns(_ engine: Engine) -> UInt64 { engine.statistics.work.coveredRunCount }

  /// Returns the range tombstones of the memtable in ascending order.
  private static func fragments(_ engine: Engine) -> [(start: [UInt8], end: [UInt8])] {
    var found: [(start: [UInt8], end: [UInt8])] = []
    let table = engine.core.state(of: nil).retainView().memTable
    table.rangeTombstones.forEachFragment(at: .maximum) { start, end, _ in found.append((start.bytes, end.bytes)) }
    return found
  }

  @Test func `layout 6: a long run of dead keys gets one range tombstone, which the next seek skips`() throws {
    let observed = try ObservedEngine(Self.options())
    let engine = observed.engine
    try observed.put(0..<1_000)
    try engine.flush()
    try Self.delete(0..<900, in: engine)
    #expect(try Self.first(engine) == Self.key(900))
    #expect(Self.coveredRuns(engine) == 1)
    let fragments = Self.fragments(engine)
    #expect(fragments.count == 1)
    #expect(fragments.first?.start == Self.key(0))
    #expect(fragments.first?.end == Self.key(899) + [0])
    // The scan is short now, and does not request another tombstone.
    #expect(try Self.first(engine) == Self.key(900))
    #expect(Self.coveredRuns(engine) == 1)
    #expect(try engine.content()["default"]?.count == 100)
    _ = try observed.close()
  }

  @Test func `dead runs are counted by family, and not covered if many tables have range tombstones`() throws {
    var options = Self.options()
    options.compactsInBackground = false
    let observed = try ObservedEngine(options)
    let engine = observed.engine
    let other = try engine.createFamily("other")
    func statistics(_ name: String) throws -> EngineStatistics.Family {
      try #require(engine.statistics.families.first { $0.name == name })
    }
    // Each of these tables has its own range tombstone, in one family.
    for index in 0..<DeadRuns.tombstoneTablesMaximum {
      try observed.put(index * 10..<index * 10 + 10)
      try engine.deleteRange(from: Self.key(index * 10 + 3), to: Self.key(index * 10 + 5))
      try engine.flush()
    }
    try observed.put(0..<1_000, in: other)
    try observed.put(2_000..<3_000)
    for index in 0..<900 { try engine.delete(Self.key(index), in: other) }
    try Self.delete(2_000..<2_900, in: engine)
    func first(from lower: Int, in family: ColumnFamily?) throws -> [UInt8]? {
      var cursor = try engine.cursor(in: family, bounds: CursorBounds(lower: Self.key(lower)))
      try cursor.seekToFirst()
      return cursor.isValid ? cursor.keyBytes : nil
    }
    #expect(try first(from: 0, in: other) == Self.key(900))
    #expect(try first(from: 2_000, in: nil) == Self.key(2_900))
    #expect(try statistics("other").coveredRunCount == 1)
    #expect(try statistics("other").rangeTombstoneTableCount == 0)
    #expect(try statistics("default").coveredRunCount == 0, "off")
    #expect(try statistics("default").rangeTombstoneTableCount == DeadRuns.tombstoneTablesMaximum)
    // Without those tables, the function is active again.
    try engine.compact()
    try observed.put(2_000..<3_000)
    try Self.delete(2_000..<2_900, in: engine)
    #expect(try statistics("default").rangeTombstoneTableCount == 0)
    #expect(try first(from: 2_000, in: nil) == Self.key(2_900))
    #expect(try statistics("default").coveredRunCount == 1)
    #expect(engine.statistics.json.contains("\"coveredRuns\":1"))
    _ = try observed.close()
  }

  @Test func `a dead run that grows at its end stays covered by one range tombstone`() throws {
    let observed = try ObservedEngine(Self.options(memtableSize: 1 << 20))
    let engine = observed.engine
    try observed.put(0..<3_000)
    for round in 1...20 {
      try Self.delete((round - 1) * 100..<round * 100, in: engine)
      #expect(try Self.first(engine) == Self.key(round * 100))
      let fragments = Self.fragments(engine)
      #expect(fragments.count == 1 && fragments[0].start == Self.key(0))
      #expect(fragments.first?.end == Self.key(round * 100 - 1) + [0])
    }
    #expect(Self.coveredRuns(engine) == 20)
    _ = try observed.close()
  }

  @Test func `a dead run that grows at its start stays covered by one range tombstone`() throws {
    let observed = try ObservedEngine(Self.options(memtableSize: 1 << 20))
    let engine = observed.engine
    try observed.put(0..<3_000)
    for round in 1...20 {
      try Self.delete(3_000 - round * 100..<3_000 - (round - 1) * 100, in: engine)
      #expect(try Self.first(engine, isLast: true) == Self.key(3_000 - round * 100 - 1))
      let fragments = Self.fragments(engine)
      #expect(fragments.count == 1 && fragments[0].end == Self.key(2_999) + [0])
      #expect(fragments.first?.start == Self.key(3_000 - round * 100))
    }
    #expect(try engine.content()["default"]?.count == 1_000)
    _ = try observed.close()
  }

  @Test func `a live key of a lower level ends a dead run`() throws {
    let observed = try ObservedEngine(Self.options())
    let engine = observed.engine
    try observed.put(0..<1_000)
    try engine.compact()
    // Key 250 is live in the lowest level only; its neighbors are dead in the memtable.
    try Self.delete(0..<250, in: engine)
    try Self.delete(251..<1_000, in: engine)
    #expect(try Self.first(engine) == Self.key(250))
    #expect(try Self.first(engine, isLast: true) == Self.key(250))
    let livesOn = Self.key(250)
    #expect(
      Self.fragments(engine).allSatisfy {
        KeyBytes.compare($0.end, livesOn) <= 0 || KeyBytes.compare($0.start, livesOn) > 0
      })
    #expect(try Self.first(engine, isLast: true) == Self.key(250))
    #expect(Self.coveredRuns(engine) == 2)
    #expect(try engine.content()["default"]?.map(\.key) == [Self.key(250)])
    _ = try observed.close()
  }

  @Test(arguments: [false, true])
  func `a write into a dead run between the scan and the commit prevents its cover`(isDelete: Bool) throws {
    let observed = try ObservedEngine(Self.options())
    let engine = observed.engine
    try observed.put(0..<500)
    try Self.delete(0..<400, in: engine)
    var cursor = try engine.cursor()
    try cursor.seekToFirst()
    #expect(cursor.keyBytes == Self.key(400))
    // A delete could be covered, but the cursor cannot detect that the new entry is one more delete.
    if isDelete { try engine.delete(Self.key(200)) } else { try engine.put(Self.key(200), [1]) }
    Self.end(cursor)
    #expect(Self.coveredRuns(engine) == 0 && Self.fragments(engine).isEmpty)
    #expect(try Self.first(engine) == Self.key(isDelete ? 400 : 200))
    _ = try observed.close()
  }

  @Test func `a write just after a dead run does not prevent its cover`() throws {
    let observed = try ObservedEngine(Self.options())
    let engine = observed.engine
    try observed.put(0..<500)
    try Self.delete(0..<400, in: engine)
    var cursor = try engine.cursor()
    try cursor.seekToFirst()
    #expect(cursor.keyBytes == Self.key(400))
    try engine.delete(Self.key(400))
    try engine.put(Self.key(399) + [0], [1])
    Self.end(cursor)
    #expect(Self.coveredRuns(engine) == 1)
    #expect(try Self.first(engine) == Self.key(399) + [0])
    _ = try observed.close()
  }

  @Test func `snapshots see the same keys after a dead run is covered`() throws {
    let observed = try ObservedEngine(Self.options())
    let engine = observed.engine
    try observed.put(0..<500)
    let full = engine.snapshot()
    try Self.delete(0..<300, in: engine)
    let half = engine.snapshot()
    try Self.delete(300..<400, in: engine)
    #expect(try Self.first(engine) == Self.key(400))
    #expect(Self.coveredRuns(engine) == 1)
    #expect(try Self.first(engine, snapshot: full) == Self.key(0))
    #expect(try Self.first(engine, snapshot: half) == Self.key(300))
    try engine.flush()
    try engine.compact()
    #expect(try Self.first(engine, snapshot: full) == Self.key(0))
    #expect(try Self.first(engine, snapshot: half) == Self.key(300))
    #expect(try Self.first(engine) == Self.key(400))
    _ = try observed.close()
  }

  @Test func `a cursor at a snapshot, one of a transaction, and a disabled engine cover no dead run`() throws {
    let observed = try ObservedEngine(Self.options())
    let engine = observed.engine
    try observed.put(0..<500)
    try Self.delete(0..<400, in: engine)
    let snapshot = engine.snapshot()
    #expect(try Self.first(engine, snapshot: snapshot) == Self.key(400))
    do {
      var transaction = engine.beginTransaction()
      var cursor = try transaction.cursor()
      try cursor.seekToFirst()
      #expect(cursor.keyBytes == Self.key(400))
    }
    #expect(Self.coveredRuns(engine) == 0)
    _ = try observed.close()

    let disabled = try ObservedEngine(Self.options(minimum: 0))
    try disabled.put(0..<500)
    try Self.delete(0..<400, in: disabled.engine)
    #expect(try Self.first(disabled.engine) == Self.key(400))
    #expect(Self.coveredRuns(disabled.engine) == 0)
    _ = try disabled.close()
  }

  @Test func `a dead run with unlogged entries, or with a flush after its scan, is not covered`() throws {
    let observed = try ObservedEngine(Self.options())
    let engine = observed.engine
    try observed.put(0..<500)
    try Self.delete(0..<300, in: engine)
    for index in 300..<400 { try engine.delete(Self.key(index), durability: Durability.none) }
    #expect(try Self.first(engine) == Self.key(400))
    #expect(Self.coveredRuns(engine) == 0)
    try engine.flush()
    // The entries are in tables and therefore durable, so they may be covered.
    var cursor = try engine.cursor()
    try cursor.seekToFirst()
    #expect(cursor.keyBytes == Self.key(400))
    try engine.put(Self.key(600), [1])
    try engine.flush()
    try engine.put(Self.key(600), [2])
    Self.end(cursor)
    #expect(Self.coveredRuns(engine) == 0)
    #expect(try Self.first(engine) == Self.key(400))
    #expect(Self.coveredRuns(engine) == 1)
    _ = try observed.close()
  }

  @Test func `a transaction that read a covered run commits, and one that missed a write into it does not`() throws {
    let observed = try ObservedEngine(Self.options(memtableSize: 1 << 20))
    let engine = observed.engine
    try observed.put(0..<1_000)
    try Self.delete(0..<400, in: engine)
    for misses in [false, true] {
      var transaction = engine.beginTransaction()
      var cursor = try transaction.cursor()
      try cursor.seekToFirst()
      let head = cursor.keyBytes
      #expect(try transaction.get(Self.key(17)) == nil)
      try transaction.delete(head)
      // Another cursor finds the run, too, and the engine covers it.
      let runs = Self.coveredRuns(engine)
      #expect(try Self.first(engine) == head)
      #expect(Self.coveredRuns(engine) == runs + 1)
      // The transaction has read the key, which is under the range tombstone.
      if misses { try engine.deleteRange(from: Self.key(100), to: Self.key(101)) }
      do throws(EngineError) {
        try transaction.commit()
        #expect(!misses)
      } catch {
        #expect(misses && error.code == .conflict)
      }
      // The next round has its own run to cover.
      try Self.delete(400..<900, in: engine)
    }
    _ = try observed.close()
  }

  @Test func `a change that a later cover hides is still a conflict`() throws {
    let observed = try ObservedEngine(Self.options(memtableSize: 1 << 20))
    let engine = observed.engine
    try observed.put(0..<1_000)
    try Self.delete(0..<400, in: engine)
    for write in 0..<3 {
      var transaction = engine.beginTransaction()
      #expect(try transaction.get(Self.key(100)) == nil)
      try transaction.put([0xff], [1])
      switch write {
      case 0: try engine.put(Self.key(100), [1])
      case 1: try engine.deleteRange(from: Self.key(50), to: Self.key(150))
      default: try engine.delete(Self.key(100))
      }
      if write == 0 { try engine.delete(Self.key(100)) }
      let runs = Self.coveredRuns(engine)
      try Self.delete(400 + write * 100..<500 + write * 100, in: engine)
      #expect(try Self.first(engine) == Self.key(500 + write * 100))
      #expect(Self.coveredRuns(engine) == runs + 1)
      do throws(EngineError) {
        try transaction.commit()
        Issue.record("write \(write) came between")
      } catch {
        #expect(error.code == .conflict)
      }
    }
    _ = try observed.close()
  }

  @Test func `a dead run that ends with a key of the maximum size is not covered`() throws {
    var options = Self.options(memtableSize: 16 << 20)
    // Larger than the key, for which the log would otherwise have no room.
    options.logSegmentSize = 8 << 20
    let observed = try ObservedEngine(options)
    let engine = observed.engine
    // The segment that is open first is small, so it is filled.
    for _ in 0..<40 { try engine.put([0], [UInt8](repeating: 0, count: 60_000)) }
    try engine.delete([0])
    let longest = [UInt8](repeating: 0xff, count: Limits.keySizeMaximum)
    try observed.put(0..<100)
    try engine.put(longest, [1])
    try Self.delete(0..<100, in: engine)
    try engine.delete(longest)
    #expect(try Self.first(engine) == nil)
    #expect(Self.coveredRuns(engine) == 0 && Self.fragments(engine).isEmpty)
    // A key with one byte less has an end key.
    try engine.put(Array(longest.dropLast()), [1])
    #expect(try Self.first(engine) == Array(longest.dropLast()))
    #expect(Self.coveredRuns(engine) == 1)
    try engine.flush()
    #expect(try engine.verify().faults.isEmpty)
    _ = try observed.close()
  }

  @Test func `the next commit covers a dead run that was found while a leader was active`() throws {
    let observed = try ObservedEngine(Self.options())
    let engine = observed.engine
    try observed.put(0..<500)
    try Self.delete(0..<400, in: engine)
    #expect(try engine.core.pipeline.lead { _ in try Self.first(engine) } == Self.key(400))
    #expect(Self.coveredRuns(engine) == 0)
    try engine.put(Self.key(700), [1])
    #expect(Self.coveredRuns(engine) == 1)
    #expect(try engine.get(Self.key(700)) == [1])
    _ = try observed.close()
  }

  /// A writer has checked its batch and waits for flushes, and a cursor that ends meanwhile leaves a run for the next
  /// leader. If the log breaks in that time, the writer handles that, and must not take the run's batch for its own.
  @Test func `a dead run that is found while a commit waits does not disturb that commit`() throws {
    let observed = try ObservedEngine(Self.options())
    let engine = observed.engine
    let memory = engine.core.pipeline.memory
    // A small memtable, so that the default family still has room for the run's tombstone.
    let other = try engine.createFamily("other", options: FamilyOptions(memtableSize: 64 << 10))
    let value = [UInt8](repeating: 7, count: 600)
    var count = 0
    for round in 0..<4 {
      observed.executor.runAll()
      try observed.put(0..<500, round: round)
      try Self.delete(0..<400, in: engine)
      let hasRun = Atomic<Bool>(false)
      var isSubmitted = false
      while !hasRun.load(ordering: .relaxed), count < 100_000 {
        var batch = WriteBatch()
        for index in count..<count + 40 { try batch.put(Self.key(1_000 + index), value, in: other) }
        if memory.isNearlyFull, !isSubmitted {
          isSubmitted = true
          let faults = observed.faults
          // The job runs on the writer's thread, while it waits.
          observed.executor.submit("test", priority: .immediate) {
            _ = try? Self.first(engine)
            faults.inject(Fault([.sync], pathSuffix: ".log", count: 1))
            try? engine.core.pipeline.sync(.position(engine.core.pipeline.log.appendedPosition), for: .background)
            faults.clear()
            hasRun.store(true, ordering: .relaxed)
          }
        }
        try engine.write(batch)
        for index in count..<count + 40 { #expect(try engine.get(Self.key(1_000 + index), in: other) == value) }
        count += 40
      }
      let ran = hasRun.load(ordering: .relaxed)
      #expect(ran)
    }
    try engine.flush()
    for index in 0..<count { #expect(try engine.get(Self.key(1_000 + index), in: other) == value) }
    _ = try observed.close()
  }

  @Test func `the range tombstone over a dead run survives a crash`() throws {
    var environment = EngineEnvironment.system
    environment.fileSystem = MemoryFileSystem()
    var engine: Engine? = try Engine.open(at: "/db", options: Self.options(), environment: environment)
    for index in 0..<500 { try engine?.put(Self.key(index), [1]) }
    for index in 0..<400 { try engine?.delete(Self.key(index)) }
    if let engine {
      #expect(try Self.first(engine) == Self.key(400))
    }
    // The engine is not closed.
    engine = nil
    let reopened = try Engine.open(at: "/db", options: Self.options(), environment: environment)
    #expect(Self.fragments(reopened).count == 1)
    #expect(try reopened.content()["default"]?.count == 100)
    try reopened.close()
  }
}
