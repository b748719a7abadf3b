import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests that a long-lived cursor keeps a key and a sequence, and not the files that existed when it was created.
struct LongCursorTests {
  private static func options() -> EngineOptions {
    var options = DamageFixture.options()
    options.compression = CompressionKind.none
    return options
  }

  private static func key(_ index: Int) -> [UInt8] { Array("key\(100_000 + index)".utf8) }

  private static func value(_ index: Int) -> [UInt8] { [UInt8](repeating: UInt8(index % 251), count: 400) }

  private static func shows(_ cursor: borrowing EngineCursor, _ key: [UInt8], _ value: [UInt8]) -> Bool {
    cursor.isValid && cursor.keyBytes == key && cursor.valueBytes == value
  }

  private static func showsNothing(_ cursor: borrowing EngineCursor) -> Bool { !cursor.isValid }

  private struct World {
    let disk = MemoryFileSystem()
    let executor = SteppedExecutor(seed: 1, clock: ManualClock(1_000_000_000))
    let engine: Engine

    init(count: Int) throws {
      let numbers = Mutex(SeededRandom(seed: 1))
      let executor = executor
      engine = try Engine.open(
        at: "/db", options: LongCursorTests.options(),
        environment: EngineEnvironment(
          fileSystem: disk, clock: executor.clock, random: { numbers.withLock { $0.next() } },
          makeExecutor: { _ in executor }))
      for index in 0..<count { try engine.put(LongCursorTests.key(index), LongCursorTests.value(index)) }
      try engine.compact()
    }

    func tableBytes() throws -> UInt64 {
      try disk.list("/db").filter { $0.hasSuffix(".sst") }
        .reduce(0) { $0 + (try disk.attributes("/db/" + $1)?.size ?? 0) }
    }

    func deleteEverything(_ count: Int) throws {
      for index in 0..<count { try engine.delete(LongCursorTests.key(index)) }
    }
  }

  @Test func `a cursor that is never moved again keeps no files, and its spans stay valid`() throws {
    let count = 30_000
    let world = try World(count: count)
    var cursor = try world.engine.cursor()
    try cursor.seek(Self.key(1_000))
    let full = try world.tableBytes()
    #expect(full > 10 << 20)
    // The same content is written again with other sequences: no entry at the cursor's sequence is obsolete, but all
    // of its files are.
    for round in 1...3 {
      for index in 0..<count { try world.engine.put(Self.key(index), [UInt8(round)]) }
      try world.engine.compact()
      try world.engine.waitForCompaction()
    }
    #expect(world.engine.core.background.obsolete.pinnedBytes == 0)
    if !Self.shows(cursor, Self.key(1_000), Self.value(1_000)) { Issue.record("the cursor stands elsewhere") }
    var seen = 0
    for index in 1_000..<count {
      guard Self.shows(cursor, Self.key(index), Self.value(index)) else { break }
      seen += 1
      try cursor.next()
    }
    #expect(seen == count - 1_000)
    if !Self.showsNothing(cursor) { Issue.record("the cursor stands elsewhere") }
  }

  @Test func `after a delete and a compaction of every key the disk holds the entries of an open cursor once`() throws {
    let count = 30_000
    let world = try World(count: count)
    let full = try world.tableBytes()
    var cursor = try world.engine.cursor()
    try cursor.seekToFirst()
    try world.deleteEverything(count)
    try world.engine.compact()
    try world.engine.waitForCompaction()
    // The tables hold what the sequence sees, with the tombstones above it, and no other files are kept.
    let held = try world.tableBytes()
    #expect(held < full * 5 / 4, "\(held) of \(full)")
    var seen = 0
    while cursor.isValid {
      seen += 1
      try cursor.next()
    }
    #expect(seen == count)
  }

  @Test func `a cursor whose view was taken continues both ways, over buffers, blocks and memtables`() throws {
    let world = try World(count: 2_000)
    // Half of the keys are written again, to the memtable.
    for index in stride(from: 0, to: 2_000, by: 2) { try world.engine.put(Self.key(index), [7]) }
    var cursor = try world.engine.cursor()
    try world.deleteEverything(2_000)
    var random = SeededRandom(seed: 4)
    func expected(_ index: Int) -> [UInt8] { index % 2 == 0 ? [7] : Self.value(index) }
    var index = 1_000
    try cursor.seek(Self.key(index))
    for step in 0..<3_000 {
      if random.oneIn(3) {
        #expect(world.engine.core.background.cursors.takeBack(age: 0) <= 1)
        if random.oneIn(5) { try world.engine.flush() }
      }
      guard Self.shows(cursor, Self.key(index), expected(index)) else {
        Issue.record("step \(step): not at \(index)")
        return
      }
      if index == 0 || (index < 1_999 && random.oneIn(2)) {
        index += 1
        try cursor.next()
      } else {
        index -= 1
        try cursor.previous()
      }
    }
    world.engine.core.background.cursors.takeBack(age: 0)
    try cursor.seekToLast()
    if !Self.shows(cursor, Self.key(1_999), expected(1_999)) { Issue.record("the cursor stands elsewhere") }
    world.engine.core.background.cursors.takeBack(age: 0)
    try cursor.next()
    if !Self.showsNothing(cursor) { Issue.record("the cursor stands elsewhere") }
  }

  @Test func `a cursor over a dropped family continues, also where its view had been taken before`() throws {
    let world = try World(count: 10)
    let family = try world.engine.createFamily("other")
    for index in 0..<1_000 { try world.engine.put(Self.key(index), Self.value(index), in: family) }
    try world.engine.flush()
    var early = try world.engine.cursor(in: family)
    var late = try world.engine.cursor(in: family)
    try early.seekToFirst()
    world.engine.core.background.cursors.takeBack(age: 0)
    try late.seekToFirst()
    try world.engine.dropFamily(family)
    world.engine.core.background.cursors.takeBack(age: 0)
    try world.engine.waitForCompaction()
    for index in 0..<1_000 {
      if !Self.shows(early, Self.key(index), Self.value(index)) { Issue.record("the cursor stands elsewhere") }
      if !Self.shows(late, Self.key(index), Self.value(index)) { Issue.record("the cursor stands elsewhere") }
      try early.next()
      try late.next()
    }
    if !Self.showsNothing(early) { Issue.record("the cursor stands elsewhere") }
    if !Self.showsNothing(late) { Issue.record("the cursor stands elsewhere") }
  }

  @Test func `cursors that move while their views are taken read the right entries`() throws {
    let environment = EngineEnvironment.inMemory()
    let engine = try Engine.open(at: "/db", options: Self.options(), environment: environment)
    let count = 2_000
    for index in 0..<count { try engine.put(Self.key(index), Self.value(index)) }
    try engine.flush()
    let wrong = Atomic<Int>(0)
    let isDone = Atomic<Bool>(false)
    let scanners = (0..<3).map { number in
      EngineThread(name: "scanner") {
        for _ in 0..<20 {
          guard (try? Self.scan(engine, count)) == true else {
            wrong.add(1, ordering: .relaxed)
            break
          }
        }
        if number == 0 { isDone.store(true, ordering: .releasing) }
      }
    }
    let taker = EngineThread(name: "taker") {
      while !isDone.load(ordering: .acquiring) { engine.core.background.cursors.takeBack(age: 0) }
    }
    for scanner in scanners { scanner.join() }
    taker.join()
    #expect(wrong.load(ordering: .relaxed) == 0)
    try engine.close()
  }

  private static func scan(_ engine: Engine, _ count: Int) throws -> Bool {
    var cursor = try engine.cursor()
    try cursor.seekToFirst()
    for index in 0..<count {
      guard shows(cursor, key(index), value(index)) else { return false }
      try cursor.next()
    }
    return !cursor.isValid
  }
}
