import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of runs of dead keys that a cursor passed without having seen all keys that live there now: no range
/// tombstone may be written over them.
struct DeadRunProofTests {
  private static func options() -> EngineOptions {
    var options = SmallEngine.options(memtableSize: 1 << 20)
    options.deadRunMinimum = 64
    return options
  }

  private static func key(_ index: Int) -> [UInt8] { ObservedEngine.key(index) }

  private static func end(_ cursor: consuming EngineCursor) {}

  /// Adds a table with entries of one sequence to the last level, as an ingestion does.
  private static func addTable(_ engine: Engine, _ keys: [Int], sequence: SequenceNumber) throws {
    let family = engine.core.state(of: nil)
    let level = Limits.levelCount - 1
    let output = try TableOutput(engine.core.background, family, level: level, origin: .compaction)
    for index in keys {
      try key(index).withByteView { (key) throws(EngineError) in
        try output.builder.add(key, Trailer(sequence, .put), key)
      }
    }
    var edit = VersionEdit()
    edit.addTable(try output.finish(), family: family.id, level: level)
    try engine.core.tree.commit(edit)
  }

  /// In this case RocksDB lost data: the table's entries have a sequence that the cursor could have seen, and the
  /// cursor is older than the table.
  @Test(arguments: [SequenceNumber.zero, SequenceNumber(5), SequenceNumber(402)])
  func `a cursor older than ingested tables covers no dead run`(
    sequence: SequenceNumber
  ) throws {
    let observed = try ObservedEngine(Self.options())
    let engine = observed.engine
    for index in 0..<400 { try engine.delete(Self.key(index)) }
    try engine.put(Self.key(900), [1])
    var cursor = try engine.cursor()
    try cursor.seekToFirst()
    #expect(cursor.keyBytes == Self.key(900))
    // The ingestion is a separate commit, after which every key counts as written.
    try engine.put(Self.key(901), [1])
    try engine.core.pipeline.lead { (lead) throws(EngineError) in
      engine.core.state(of: nil).beginAt(engine.visibleSequence, lead)
      do { try Self.addTable(engine, [500, 510], sequence: sequence) } catch { Issue.record(error) }
    }
    Self.end(cursor)
    #expect(engine.statistics.work.coveredRunCount == 0)
    #expect(try engine.get(Self.key(500)) == Self.key(500))
    #expect(try engine.get(Self.key(510)) == Self.key(510))
    // A cursor that has seen the tables covers the dead keys before their entries.
    var next = try engine.cursor()
    try next.seekToFirst()
    #expect(next.keyBytes == Self.key(500))
    Self.end(next)
    #expect(engine.statistics.work.coveredRunCount == 1)
    #expect(try engine.content()["default"]?.map(\.key) == [500, 510, 900, 901].map { Self.key($0) })
    _ = try observed.close()
  }

  @Test func `a transaction that read before an ingestion of tables conflicts`() throws {
    let observed = try ObservedEngine(Self.options())
    let engine = observed.engine
    try engine.put(Self.key(1), [1])
    var transaction = engine.beginTransaction()
    _ = try transaction.get(Self.key(500))
    try transaction.put(Self.key(2), [2])
    try engine.put(Self.key(3), [3])
    try engine.core.pipeline.lead { (lead) throws(EngineError) in
      engine.core.state(of: nil).beginAt(engine.visibleSequence, lead)
      do { try Self.addTable(engine, [500], sequence: .zero) } catch { Issue.record(error) }
    }
    do {
      try transaction.commit()
      Issue.record("the transaction was committed")
    } catch {
      #expect(error.code == .conflict)
    }
    _ = try observed.close()
  }

  /// In this case the tables may not be read, so that the cursor knows only the memtables.
  @Test(arguments: [false, true])
  func `a cursor that read memtables only covers no dead run`(seeksLast: Bool) throws {
    let disk = MemoryFileSystem()
    let executor = SteppedExecutor(seed: 1)
    func open() throws -> Engine {
      try Engine.open(
        at: "/db", options: Self.options(),
        environment: EngineEnvironment(
          fileSystem: disk, clock: executor.clock, random: { 7 }, makeExecutor: { _ in SteppedExecutor(seed: 2) }))
    }
    var engine = try open()
    let live = [100, 250, 399]
    for index in live { try engine.put(Self.key(index), [9]) }
    try engine.flush()
    try engine.close()
    engine = try open()
    // The dead keys are before, between and after those of the table, which no read has opened.
    for index in 0..<600 where !live.contains(index) { try engine.delete(Self.key(index)) }
    try engine.put(Self.key(700), [1])
    let found: [UInt8]?? = try engine.withoutFileReads {
      var cursor = try engine.cursor()
      if seeksLast { try cursor.seekForPrevious(Self.key(600)) } else { try cursor.seekToFirst() }
      return cursor.isValid ? cursor.keyBytes : nil
    }
    #expect(found == nil, "the table has to be read for an answer")
    #expect(engine.statistics.work.coveredRunCount == 0)
    for index in live { #expect(try engine.get(Self.key(index)) == [9]) }
    // The same cursor continues after the refusal, and the keys that it covers then are dead.
    var cursor = try engine.cursor()
    _ = try engine.withoutFileReads { try cursor.seekToFirst() }
    try cursor.seekToFirst()
    #expect(cursor.keyBytes == Self.key(100))
    Self.end(cursor)
    #expect(engine.statistics.work.coveredRunCount == 1)
    #expect(try engine.content()["default"]?.map(\.key) == (live + [700]).map { Self.key($0) })
    try engine.close()
  }
}
