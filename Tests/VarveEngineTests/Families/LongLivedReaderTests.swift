import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the ages of snapshots and cursors.
struct LongLivedReaderTests {
  private static let second: UInt64 = 1_000_000_000

  @Test func `snapshots and cursors are counted with the age of the oldest`() throws {
    let observed = try ObservedEngine()
    let clock = observed.executor.clock
    try observed.put(0..<10)
    #expect(observed.engine.statistics.readers.oldestSequence == nil)
    do {
      let first = observed.engine.snapshot()
      clock.advance(3 * Self.second)
      try observed.put(10..<20)
      var cursor = try observed.engine.cursor()
      try cursor.seekToFirst()
      clock.advance(2 * Self.second)
      // A cursor at a snapshot is one more reader; its own age counts, and not that of the snapshot.
      let late = try observed.engine.cursor(snapshot: first)
      let readers = observed.engine.statistics.readers
      #expect(readers.snapshotCount == 1 && readers.cursorCount == 2)
      #expect(readers.oldestSequence == first.sequence)
      #expect(readers.oldestSnapshotAgeNanoseconds == 5 * Self.second)
      #expect(readers.oldestCursorAgeNanoseconds == 2 * Self.second)
      #expect(late.sequence == first.sequence)
      withExtendedLifetime(first) {}
    }
    let readers = observed.engine.statistics.readers
    #expect(readers.snapshotCount == 0 && readers.cursorCount == 0 && readers.oldestSequence == nil)
    _ = try observed.close()
  }

  @Test func `a cursor keeps its sequence after its snapshot is released`() throws {
    let observed = try ObservedEngine()
    try observed.put(0..<100)
    var cursor: EngineCursor
    do { cursor = try observed.engine.cursor(snapshot: observed.engine.snapshot()) }
    try observed.put(0..<100, round: 1)
    try observed.engine.compact()
    try cursor.seekToFirst()
    let value = cursor.valueBytes
    #expect(value == Array("value 0 0".utf8))
    #expect(observed.engine.statistics.readers.cursorCount == 1)
  }

  @Test func `a reader above the bound is notified, and again each time its age has doubled`() throws {
    let observed = try ObservedEngine()
    try observed.put(0..<10)
    let snapshot = observed.engine.snapshot()
    var cursor = try observed.engine.cursor()
    try cursor.seekToFirst()
    for _ in 0..<300 {
      observed.executor.clock.advance(Self.second)
      observed.executor.runAll()
    }
    withExtendedLifetime(snapshot) {}
    let sequence = cursor.sequence
    _ = consume cursor
    for _ in 0..<300 {
      observed.executor.clock.advance(Self.second)
      observed.executor.runAll()
    }
    let events = try observed.close()
    var ages: [EngineEvent.Reader: [UInt64]] = [:]
    for case .longLived(let reader, let seen, let age) in events {
      #expect(seen == sequence)
      ages[reader, default: []].append(age / Self.second)
    }
    #expect(ages[.cursor] == [60, 120, 240])
    #expect(ages[.snapshot]?.prefix(3) == [60, 120, 240])
  }

  @Test(arguments: [1, 2, 3] as [UInt64])
  func `holding and releasing in any order keeps counts and ages right`(seed: UInt64) {
    let clock = ManualClock()
    let list = SnapshotList(clock: clock, latencies: OperationLatencies(clock: clock))
    var random = SeededRandom(seed: seed)
    var held: [(hold: SnapshotList.Hold, since: UInt64, reader: EngineEvent.Reader)] = []
    var visible: UInt64 = 1
    for step in 0..<2_000 {
      clock.advance(1)
      switch random.below(5) {
      case 0, 1:
        visible += UInt64(random.below(2))
        let reader: EngineEvent.Reader = random.below(2) == 0 ? .snapshot : .cursor
        held.append((list.hold(as: reader) { SequenceNumber(visible) }, clock.now(), reader))
      case 2:
        guard let other = held.last else { continue }
        held.append((list.hold(other.hold.sequence, as: .cursor), clock.now(), .cursor))
      default:
        guard !held.isEmpty else { continue }
        list.release(held.remove(at: random.below(held.count)).hold)
      }
      let (summary, now) = list.summary
      #expect(now == clock.now())
      let snapshots = held.filter { $0.reader == .snapshot }
      #expect(summary.snapshotCount == snapshots.count, "step \(step) of seed \(seed)")
      #expect(summary.cursorCount == held.count - snapshots.count)
      #expect(summary.oldestSnapshotSince == snapshots.map(\.since).min())
      #expect(summary.oldestCursorSince == held.filter { $0.reader == .cursor }.map(\.since).min())
      #expect(summary.oldestSequence == held.map(\.hold.sequence).min())
      let sequences = Set(held.map(\.hold.sequence)).union([SequenceNumber(visible)]).sorted()
      #expect(list.sequences { SequenceNumber(visible) } == sequences)
    }
  }
}
