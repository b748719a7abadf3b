import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the memory that reads keep: which writers wait for it, when it is released, and which listener is
/// notified.
struct KeptMemoryTests {
  private static let second: UInt64 = 1_000_000_000

  private static func options(memtableSize: Int = 64 << 10) -> EngineOptions {
    var options = SmallEngine.options(memtableSize: memtableSize)
    options.deadRunMinimum = 0
    return options
  }

  /// Returns the number of table files in the directory.
  private func tableFiles(_ observed: ObservedEngine) throws -> Int {
    try observed.faults.list("/db").count { $0.hasSuffix(".sst") }
  }

  /// The body of a read writes, and so itself keeps the memtables that its writes wait for.
  @Test func `writers wait for memtables that a read keeps, for a second and no longer`() throws {
    let observed = try ObservedEngine(Self.options())
    let (engine, clock) = (observed.engine, observed.executor.clock)
    let memory = engine.core.pipeline.memory
    let plan = engine.core.background.plan
    try observed.put(0..<10)
    let waits = Atomic<Int>(0)
    var longest: UInt64 = 0
    var keptBefore = 0
    let value = [UInt8](repeating: 7, count: 500)
    let found = try engine.withValue(forKey: unsafe ObservedEngine.key(3).span.bytes) { _ in
      for index in 0..<1_500 {
        let before = clock.now()
        let kept = memory.waitingSize
        try engine.put(ObservedEngine.key(index), value)
        let waited = clock.now() - before
        longest = max(longest, waited)
        if waited >= Self.second / 2 {
          waits.add(1, ordering: .relaxed)
          #expect(kept > plan.frozenBytesMaximum && kept > keptBefore)
          keptBefore = kept
        }
        observed.executor.runAll()
      }
      #expect(memory.keptSize > plan.frozenBytesMaximum)
      let readers = engine.statistics.readers
      #expect(readers.keptMemTableCount > 3 && readers.keptBytes > plan.frozenBytesMaximum)
      #expect(readers.oldestReadAgeNanoseconds.map { $0 > 0 } == true)
      return true
    }
    #expect(found == true)
    #expect(waits.load(ordering: .relaxed) > 1, "the writer waited for the reader, and again for as much")
    #expect(longest < 2 * Self.second)
    // The end of the body released all memory.
    #expect(memory.keptSize == 0)
    let readers = engine.statistics.readers
    #expect(readers.oldestReadAgeNanoseconds == nil && readers.keptMemTableCount == 0 && readers.keptBytes == 0)
    _ = try observed.close()
  }

  @Test func `a read that keeps memory for a second is reported, and again when its age has doubled`() throws {
    let observed = try ObservedEngine(Self.options())
    let engine = observed.engine
    try observed.put(0..<2_000)
    observed.executor.runAll()
    _ = try engine.withValue(forKey: unsafe ObservedEngine.key(3).span.bytes) { _ in
      try observed.put(0..<2_000, round: 1)
      try engine.flush()
      for _ in 0..<10 {
        observed.executor.clock.advance(Self.second)
        observed.executor.runAll()
      }
      #expect(engine.explain().contains("the oldest lookup has run for"))
    }
    for _ in 0..<5 {
      observed.executor.clock.advance(Self.second)
      observed.executor.runAll()
    }
    #expect(engine.explain().contains("no lookup keeps memory"))
    let ages = try observed.close().compactMap { event -> UInt64? in
      guard case .longRead(let age, let memTableCount, let bytes, _) = event else { return nil }
      #expect(memTableCount > 0 && bytes > 0)
      return age / Self.second
    }
    #expect(ages == [1, 2, 4, 8], "\(ages)")
  }

  @Test func `files of replaced tables are removed after the read that kept them, without any other work`() throws {
    let observed = try ObservedEngine(Self.options())
    let engine = observed.engine
    try observed.put(0..<3_000)
    try engine.compact()
    let live = try tableFiles(observed)
    _ = try engine.withValue(forKey: unsafe ObservedEngine.key(3).span.bytes) { _ in
      try observed.put(0..<3_000, round: 1)
      try engine.compact()
      #expect(engine.statistics.readers.keptFileCount > 0)
      #expect(try tableFiles(observed) > live + 1)
    }
    observed.executor.runAll()
    #expect(engine.statistics.readers.keptFileCount == 0)
    let rest = engine.statistics.levels.reduce(0) { $0 + $1.fileCount }
    #expect(try tableFiles(observed) == rest)
    _ = try observed.close()
  }

  @Test func `a cursor that stands still keeps the files of replaced tables for less than five seconds`() throws {
    // The family changes rarely, because after eight changes the view is taken in any case.
    let observed = try ObservedEngine(Self.options(memtableSize: 1 << 20))
    let engine = observed.engine
    try observed.put(0..<3_000)
    try engine.compact()
    var cursor = try engine.cursor()
    try cursor.seekToFirst()
    try observed.put(0..<3_000, round: 1)
    try engine.compact()
    observed.executor.clock.advance(5 * Self.second)
    observed.executor.runAll()
    #expect(engine.statistics.readers.keptFileCount == 0)
    // The cursor continues from its position, with the content that it saw.
    for index in 0..<100 {
      let value = cursor.valueBytes
      #expect(value == Array("value \(index) 0".utf8))
      try cursor.next()
    }
    _ = try observed.close()
  }

  @Test func `multiGet reads many keys at one sequence, and keeps no memory afterwards`() throws {
    let observed = try ObservedEngine(Self.options())
    let engine = observed.engine
    try observed.put(0..<500)
    try engine.flush()
    try observed.put(250..<300, round: 1)
    let keys = (0..<600).map { ObservedEngine.key($0) }
    let values = try engine.multiGet(keys)
    for index in 0..<600 {
      let round = (250..<300).contains(index) ? 1 : 0
      #expect(values[index] == (index < 500 ? Array("value \(index) \(round)".utf8) : nil))
    }
    #expect(engine.core.epochs.deferredReleases == nil)
    _ = try observed.close()
  }

  /// A cursor may be in the middle of a move that has not seen the request.
  @Test(arguments: [false, true])
  func `views are taken from cursors only after every thread passed a barrier`(works: Bool) throws {
    let observed = try ObservedEngine(Self.options())
    let engine = observed.engine
    try observed.put(0..<100)
    let list = OpenCursors { works }
    let snapshot = engine.snapshot()
    let holder = CursorHolder(engine.core.state(of: nil), snapshot, engine.core.tree, .all, list)
    #expect(holder.begin())
    try holder.iterator.seekToFirst()
    holder.end()
    #expect(list.takeBack(age: 0) == (works || !CursorHolder.hasThreadBarrier ? 1 : 0))
    // In either case, the next move must renew its view.
    #expect(!holder.begin())
    holder.end()
    holder.close()
    withExtendedLifetime(snapshot) {}
    _ = try observed.close()
  }

  @Test func `a failed flush does not refuse a writer that waits for readers alone`() throws {
    let observed = try ObservedEngine(Self.options())
    let engine = observed.engine
    let memory = engine.core.pipeline.memory
    try observed.put(0..<10)
    let value = [UInt8](repeating: 7, count: 500)
    _ = try engine.withValue(forKey: unsafe ObservedEngine.key(3).span.bytes) { _ in
      for index in 0..<1_500 {
        // The kept memtables are in tables, and an unrelated flush has failed.
        if memory.frozenSize == 0, memory.keptSize > 0 { memory.didFail(EngineError(.noSpace, "the disk is full")) }
        try engine.put(ObservedEngine.key(index), value)
        memory.clearFailure()
        observed.executor.runAll()
      }
      #expect(memory.keptSize > engine.core.background.plan.frozenBytesMaximum)
    }
    _ = try observed.close()
  }
}
