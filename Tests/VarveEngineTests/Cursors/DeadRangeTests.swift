import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests that a second look at an end of a consumed range steps over few dead keys, in every kind of reader, and that
/// no write is hidden by what the first look proved.
struct DeadRangeTests {
  /// Without range tombstones over runs: what readers skip is known in memory only.
  private static let options: EngineOptions = {
    var options = SmallEngine.options(memtableSize: 1 << 20)
    options.deadRunMinimum = 0
    return options
  }()

  private static let deadCount = 5_000
  private static func key(_ index: Int) -> [UInt8] { ObservedEngine.key(index) }

  /// Writes keys in `0..<deadCount`, deletes them all, and leaves one key on each side of the end that readers look at.
  private static func consume(_ engine: Engine, in family: ColumnFamily? = nil, flushes: Bool) throws {
    for index in 0..<(deadCount + 10) { try engine.put(key(index), [1], in: family) }
    if flushes { try engine.flush() }
    for index in 5..<deadCount { try engine.delete(key(index), in: family) }
  }

  /// A reader that looks at the first key from 5 on, or at the last one before `deadCount`.
  enum Reader: String, CaseIterable {
    case newCursors, snapshotCursors, sameCursor, firstVisits, transactions, batches, newSnapshots

    func look(_ engine: Engine, _ family: ColumnFamily, isFirst: Bool) throws -> () throws -> [UInt8]? {
      let bounds =
        isFirst
        ? CursorBounds(lower: DeadRangeTests.key(5), upper: nil)
        : CursorBounds(lower: nil, upper: DeadRangeTests.key(DeadRangeTests.deadCount))
      func seek(_ cursor: inout EngineCursor) throws -> [UInt8]? {
        if isFirst { try cursor.seekToFirst() } else { try cursor.seekToLast() }
        return cursor.isValid ? cursor.keyBytes : nil
      }
      func look(_ snapshot: EngineSnapshot?) throws -> [UInt8]? {
        var cursor = try engine.cursor(in: family, bounds: bounds, snapshot: snapshot)
        return try seek(&cursor)
      }
      switch self {
      case .newCursors: return { try look(nil) }
      case .newSnapshots: return { try look(engine.snapshot()) }
      case .snapshotCursors:
        let snapshot = engine.snapshot()
        return { try look(snapshot) }
      case .sameCursor:
        let box = CursorBox(try engine.cursor(in: family, bounds: bounds))
        return {
          if isFirst { try box.cursor.seekToFirst() } else { try box.cursor.seekToLast() }
          return box.cursor.isValid ? box.cursor.keyBytes : nil
        }
      case .firstVisits:
        return {
          let snapshot = engine.snapshot()
          guard isFirst else { return try look(snapshot) }
          var found: [UInt8]?
          _ = try engine.visitEntry(at: 0, in: family, bounds: bounds, snapshot: snapshot) { key, _ in
            found = key.withByteView { $0.bytes }
          }
          return found
        }
      case .transactions:
        return {
          var transaction = engine.beginTransaction()
          try transaction.put([0xff], [1], in: family)
          var cursor = try transaction.cursor(in: family, bounds: bounds)
          if isFirst { try cursor.seekToFirst() } else { try cursor.seekToLast() }
          return cursor.isValid ? cursor.keyBytes : nil
        }
      case .batches:
        return {
          var batch = IndexedWriteBatch(engine)
          try batch.put([0xff], [7], in: family)
          try batch.delete(DeadRangeTests.key(1), in: family)
          var cursor = try batch.cursor(in: family, bounds: bounds)
          return try seek(&cursor)
        }
      }
    }
  }

  private final class CursorBox {
    var cursor: EngineCursor
    init(_ cursor: consuming EngineCursor) { self.cursor = cursor }
  }

  private static func expectFewSteps(
    _ engine: Engine, _ family: ColumnFamily, _ reader: Reader, isFirst: Bool
  ) throws {
    let look = try reader.look(engine, family, isFirst: isFirst)
    let expected = isFirst ? key(deadCount) : key(4)
    let ranges = family.state.deadRanges
    #expect(try look() == expected)
    #expect(ranges.passedCount > 1_000, "or the first look had nothing to pass")
    for _ in 0..<2 {
      let before = ranges.passedCount
      #expect(try look() == expected)
      #expect(ranges.passedCount - before < 100)
    }
  }

  @Test(arguments: Reader.allCases, [false, true])
  func `a second look at either end of a consumed range steps over fewer than 100 entries`(
    _ reader: Reader, _ isFlushed: Bool
  ) throws {
    for isFirst in [true, false] {
      let observed = try ObservedEngine(Self.options)
      let family = try observed.engine.createFamily("f")
      try Self.consume(observed.engine, in: family, flushes: isFlushed)
      try Self.expectFewSteps(observed.engine, family, reader, isFirst: isFirst)
      _ = try observed.close()
    }
  }

  @Test(arguments: [true, false])
  func `so does one of a read-only engine and of a follower`(_ isFirst: Bool) throws {
    let fixture = try FollowFixture()
    let family = try fixture.writer.createFamily("f")
    try Self.consume(fixture.writer, in: family, flushes: false)
    for reader in [Reader.newSnapshots, .newCursors, .firstVisits] {
      let follower = try fixture.follow()
      try Self.expectFewSteps(follower.engine, follower.engine.family(named: "f"), reader, isFirst: isFirst)
      try follower.close()
      var options = FollowFixture.options
      options.readOnly = true
      let readOnly = try Engine.open(
        at: "/db", options: options,
        environment: FollowFixture.environment(fixture.fileSystem, SteppedExecutor(seed: 3), seed: 3))
      try Self.expectFewSteps(readOnly, readOnly.family(named: "f"), reader, isFirst: isFirst)
      try readOnly.close()
    }
    try fixture.writer.close()
  }

  @Test func `so does one in a family with many tables of range tombstones, which gets no cover`() throws {
    var options = Self.options
    options.deadRunMinimum = 128
    options.compactsInBackground = false
    let observed = try ObservedEngine(options)
    let family = try observed.engine.createFamily("f")
    for index in 0..<DeadRuns.tombstoneTablesMaximum {
      let first = 20_000 + index * 10
      try observed.put(first..<first + 10, in: family)
      try observed.engine.deleteRange(from: Self.key(first), to: Self.key(first + 5), in: family)
      try observed.engine.flush()
    }
    try Self.consume(observed.engine, in: family, flushes: false)
    try Self.expectFewSteps(observed.engine, family, .newCursors, isFirst: true)
    #expect(observed.engine.statistics.work.coveredRunCount == 0)
    _ = try observed.close()
  }

  @Test func `a queue and a stack that readers at snapshots consume cost few steps for each look`() throws {
    for isStack in [false, true] {
      let observed = try ObservedEngine(Self.options)
      let engine = observed.engine
      let family = try engine.createFamily("f")
      for index in 0..<3_000 { try engine.put(Self.key(index), [1], in: family) }
      var looks = 0
      var live = Array(0..<3_000)
      while live.count > 10 {
        let snapshot = engine.snapshot()
        var cursor = try engine.cursor(in: family, snapshot: snapshot)
        if isStack { try cursor.seekToLast() } else { try cursor.seekToFirst() }
        let taken = isStack ? live.removeLast() : live.removeFirst()
        #expect(cursor.keyBytes == Self.key(taken))
        try engine.delete(Self.key(taken), in: family)
        if looks % 50 == 0, isStack {
          // What is pushed onto the stack lies among the dead keys.
          try engine.put(Self.key(taken), [2], in: family)
          live.append(taken)
        }
        looks += 1
      }
      #expect(family.state.deadRanges.passedCount < looks * 100)
      _ = try observed.close()
    }
  }

  @Test func `a write into a known range is seen by newer readers and not by older ones`() throws {
    let observed = try ObservedEngine(Self.options)
    let engine = observed.engine
    let family = try engine.createFamily("f", options: FamilyOptions(mergeOperator: "varve.append"))
    try Self.consume(engine, in: family, flushes: true)
    func first(_ snapshot: EngineSnapshot) throws -> [UInt8]? {
      var cursor = try engine.cursor(in: family, bounds: CursorBounds(lower: Self.key(5)), snapshot: snapshot)
      try cursor.seekToFirst()
      return cursor.isValid ? cursor.keyBytes : nil
    }
    var snapshots = [engine.snapshot()]
    #expect(try first(snapshots[0]) == Self.key(Self.deadCount))
    var expected = [Self.key(Self.deadCount)]
    for (round, index) in [4_000, 4_999, 2_500, 2_499, 2_501, 700, 300, 100, 50, 20, 10, 6, 5].enumerated() {
      switch round % 3 {
      case 0: try engine.put(Self.key(index), [2], in: family)
      case 1: try engine.merge(Self.key(index), [3], in: family)
      default:
        var batch = WriteBatch()
        try batch.put(Self.key(index), [4], in: family)
        try batch.delete(Self.key(index - 1), in: family)
        try engine.write(batch)
      }
      if round == 4 { try engine.flush() }
      let lowest = min(index, round == 0 ? .max : Self.number(expected[round]))
      snapshots.append(engine.snapshot())
      expected.append(Self.key(lowest))
      for (snapshot, key) in zip(snapshots, expected) { #expect(try first(snapshot) == key, "round \(round)") }
    }
    _ = try observed.close()
  }

  private static func number(_ key: [UInt8]) -> Int { Int(String(decoding: key.dropFirst(3), as: UTF8.self)) ?? 0 }

  @Test func `tables that are ingested into a consumed family, and a dropped one, are seen`() throws {
    let observed = try ObservedEngine(Self.options)
    let engine = observed.engine
    let family = try engine.createFamily("f")
    for index in 0..<2_000 { try engine.put(Self.key(index), [1], in: family) }
    for index in 0..<2_000 { try engine.delete(Self.key(index), in: family) }
    func first() throws -> [UInt8]? {
      var cursor = try engine.cursor(in: family, snapshot: engine.snapshot())
      try cursor.seekToFirst()
      return cursor.isValid ? cursor.keyBytes : nil
    }
    #expect(try first() == nil)
    #expect(!family.state.deadRanges.isEmpty)
    try engine.compact()
    let writer = try engine.makeTableWriter(for: family)
    try writer.put(Self.key(1_000), [9])
    _ = try engine.ingest(writer.finish(), into: family)
    #expect(try first() == Self.key(1_000))
    _ = try observed.close()
  }

  @Test(arguments: [1, 5, 7, 8, 9, 20, 200], [false, true])
  func `what a batch deletes itself is dead for it alone, however many versions the key has`(
    versions: Int, isRange: Bool
  ) throws {
    let engine = try Engine.open(at: "/dead-ranges", options: Self.options, environment: .inMemory())
    for index in 0..<400 { try engine.put(Self.key(index), [1]) }
    for _ in 0..<versions { try engine.put(Self.key(200), [2]) }
    for index in 0..<400 where index != 200 { try engine.delete(Self.key(index)) }
    for isForward in [false, true] {
      var batch = IndexedWriteBatch(engine)
      if isRange {
        try batch.deleteRange(from: Self.key(190), to: Self.key(210))
      } else {
        try batch.delete(Self.key(200))
      }
      var cursor = try batch.cursor()
      if isForward { try cursor.seekToFirst() } else { try cursor.seekToLast() }
      #expect(cursor.isValid == false)
      // The batch is not committed, and every other reader finds the key.
      var other = try engine.cursor()
      try other.seekToFirst()
      try #require(other.isValid == true)
      #expect(other.keyBytes == Self.key(200))
      try other.seekToLast()
      try #require(other.isValid == true)
      #expect(other.keyBytes == Self.key(200))
    }
    try engine.close()
  }

  @Test func `a batch finds its own writes within a known range, in both directions`() throws {
    let observed = try ObservedEngine(Self.options)
    let engine = observed.engine
    let family = try engine.createFamily("f")
    try Self.consume(engine, in: family, flushes: true)
    let bounds = CursorBounds(lower: Self.key(5), upper: Self.key(Self.deadCount))
    do {
      var cursor = try engine.cursor(in: family, bounds: bounds)
      try cursor.seekToFirst()
    }
    #expect(!family.state.deadRanges.isEmpty)
    var batch = IndexedWriteBatch(engine)
    let own = [7, 100, 101, 2_000, 4_998]
    for index in own { try batch.put(Self.key(index), [UInt8(index & 0xff)], in: family) }
    try batch.delete(Self.key(101), in: family)
    try batch.deleteRange(from: Self.key(3_000), to: Self.key(4_000), in: family)
    let expected = own.filter { $0 != 101 }.map(Self.key)
    var cursor = try batch.cursor(in: family, bounds: bounds)
    var found: [[UInt8]] = []
    try cursor.seekToFirst()
    while cursor.isValid {
      found.append(cursor.keyBytes)
      try cursor.next()
    }
    #expect(found == expected)
    found = []
    try cursor.seekToLast()
    while cursor.isValid {
      found.append(cursor.keyBytes)
      try cursor.previous()
    }
    #expect(found == expected.reversed())
    // What the batch deleted is dead for it alone.
    try engine.put(Self.key(3_500), [1], in: family)
    var other = try engine.cursor(in: family, bounds: bounds)
    try other.seekToFirst()
    #expect(other.keyBytes == Self.key(3_500))
    _ = try observed.close()
  }

  @Test func `the ranges of a family are few and small, and the least used makes way`() {
    let ranges = DeadRanges()
    func bytes(_ text: String) -> [UInt8] { [UInt8](text.utf8) }
    func end(_ key: String, at sequence: UInt64) -> String? {
      var bound = ByteWriter(capacity: 0)
      guard bytes(key).withByteView({ ranges.appendEnd(around: $0, at: SequenceNumber(sequence), to: &bound) }) != nil
      else { return nil }
      return String(decoding: bound.view.bytes, as: UTF8.self)
    }
    for index in 0..<DeadRanges.countMaximum {
      let number = ranges.add(from: bytes("a\(index)"), to: bytes("a\(index)z"), 100, at: SequenceNumber(10))
      ranges.confirm(number ?? 0, isUnchanged: index % 2 == 0)
    }
    #expect(end("a0b", at: 9) == nil && end("a0b", at: 10) == "a0z" && end("a0b", at: 11) == "a0z")
    #expect(end("a1b", at: 10) == "a1z" && end("a1b", at: 11) == nil, "something may have been written since")
    #expect(end("a0z", at: 10) == nil, "the end is excluded")
    #expect(ranges.add(from: bytes("a0c"), to: bytes("a0d"), 100, at: SequenceNumber(12)) == nil, "known")
    #expect(ranges.add(from: [], to: [UInt8](repeating: 1, count: 2_049), 100, at: SequenceNumber(12)) == nil)
    for index in 2..<DeadRanges.countMaximum { #expect(end("a\(index)b", at: 10) != nil) }
    let number = ranges.add(from: bytes("b"), to: bytes("c"), 100, at: SequenceNumber(12))
    ranges.confirm(number ?? 0, isUnchanged: true)
    #expect(end("bb", at: 13) == "c")
    #expect(end("a0b", at: 10) == nil, "it was not used for longest")
    // A write divides a range, also at its ends.
    for key in ["b", "bf"] { bytes(key).withByteView { ranges.noteWrite($0) } }
    #expect(end("b", at: 20) == nil)
    #expect(end("b1", at: 30) == "bf" && end("bg", at: 30) == nil, "there is no room for the second part")
  }
}
