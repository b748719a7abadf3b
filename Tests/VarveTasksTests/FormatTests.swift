import EngineTestSupport
import Foundation
import Testing

@_spi(Extensions) @testable import VarveTasks

/// Tests of the bytes of a task on disk.
struct FormatTests {
  private static func record(_ random: inout SeededRandom) -> TaskRecord {
    var position = TaskPosition(
      [.queued, .timed, .parked, .blocked][random.below(4)], queue: UInt32(random.below(1_000)),
      priority: UInt8(random.below(256)),
      sortKey: random.oneIn(2) ? [] : SortKey(Int64(random.below(1_000)) - 500).bytes, stamp: random.next(),
      ordinal: UInt32(random.below(1_000)), due: Int64(random.below(1_000_000)) - 500_000)
    position.revision = UInt32(random.below(100))
    position.isFront = random.oneIn(2)
    if random.oneIn(2) { position.lane = SubqueueID.lane("key \(random.below(9))") }
    var progress = TaskProgress(TaskState.allCases[random.below(9)])
    progress.attempt = UInt32(random.below(100))
    progress.crashes = UInt32(random.below(4))
    progress.epoch = UInt32(random.below(1_000))
    progress.isCancelling = random.oneIn(2)
    var options = TaskOptions()
    options.maxAttempts = random.oneIn(2) ? nil : 7
    options.timeout = random.oneIn(2) ? nil : .milliseconds(1_500)
    options.retry =
      [nil, .never, .fixed(.seconds(3)), .steps([.seconds(1), .milliseconds(5)]), .exponential()][random.below(5)]
    options.retention = [.deleteOnSuccess, .keep(.seconds(60)), .keepCount(7)][random.below(3)]
    options.tags = (0..<random.below(4)).map { "tag \($0)" }
    var record = TaskRecord(
      id: TaskID(rawValue: random.next()), progress: progress, position: position, enqueued: 1_767_225_600_000,
      kind: "kind-ä", version: UInt16(random.below(1_000)), payload: (0..<random.below(50)).map { UInt8($0) }, options)
    record.delay = Int64(random.below(10_000))
    record.signals = random.oneIn(2) ? [] : ["network"]
    record.errors = (0..<random.below(3)).map { "error \($0)" }
    record.step = UInt32(random.below(9))
    if random.oneIn(2) {
      var extras = TaskExtras()
      extras.uniqueKey = random.oneIn(2) ? nil : [1, 2, 3]
      if extras.uniqueKey != nil, random.oneIn(2) { extras.uniqueUntil = 77 }
      extras.limitKey = random.oneIn(2) ? nil : "key"
      extras.group = random.oneIn(2) ? nil : TaskID(rawValue: 7)
      extras.schedule = random.oneIn(2) ? nil : "nightly"
      if extras.schedule != nil { (extras.slot, extras.isLate) = (1_767_225_600_000, random.oneIn(2)) }
      extras.result = random.oneIn(2) ? nil : [9, 9]
      extras.isGroup = random.oneIn(2)
      if random.oneIn(2) { extras.headers = ["traceparent": "00-1", "b": ""] }
      record.extras = extras
    }
    record.isSuspect = random.oneIn(2)
    record.mayHaveBegun = random.oneIn(2)
    return record
  }

  @Test func `a record is decoded as it was encoded, and its key contains its position`() throws {
    var random = SeededRandom(seed: 17)
    for _ in 0..<500 {
      let record = Self.record(&random)
      #expect(try TaskRecord(record.bytes, stamp: record.position.stamp) == record)
      #expect(try TaskPosition(record.position.bytes) == record.position)
      #expect(TaskRecord.enqueued(in: record.bytes) == record.enqueued)
      let key = record.position.key(of: record.id)
      if record.position.kind == .queued {
        let entry = try QueuedTask(key: key, value: record.bytes)
        #expect(try SubqueueID(of: key) == record.position.subqueue && key.starts(with: record.position.subqueue.begin))
        #expect(entry.stamp == record.position.stamp && entry.id == record.id && entry.state == record.progress.state)
        #expect(entry.revision == record.position.revision && entry.isSuspect == record.isSuspect)
      }
    }
  }

  @Test func `keys of a subqueue are in the order of priority, sort key, stamp and ordinal, and heads come first`() {
    func key(_ priority: UInt8, _ sortKey: SortKey?, _ stamp: UInt64, _ ordinal: UInt32, isFront: Bool = false)
      -> [UInt8]
    {
      var position = TaskPosition(
        .queued, queue: 7, priority: priority, sortKey: sortKey?.bytes ?? [], stamp: stamp, ordinal: ordinal)
      position.isFront = isFront
      return position.key(of: TaskID(rawValue: 1))
    }
    let keys = [
      key(9, nil, 900, 9, isFront: true), key(0, nil, 1, 0), key(0, nil, 1, 1), key(0, nil, 2, 0),
      key(0, SortKey(-1), 1, 0), key(0, SortKey(0), 9, 0), key(0, SortKey(1), 0, 0), key(0, SortKey("a"), 5, 0),
      key(0, SortKey("a\u{0}"), 4, 0), key(0, SortKey("aa"), 3, 0), key(1, nil, 0, 0),
    ]
    #expect(keys == keys.sorted { $0.lexicographicallyPrecedes($1) })
    for key in keys { #expect(key.starts(with: SubqueueID(queue: 7).begin)) }
  }

  @Test func `bytes that are not a task record throw, and never trap`() throws {
    var random = SeededRandom(seed: 18)
    var refused = 0
    for _ in 0..<2_000 {
      var bytes = Self.record(&random).bytes
      switch random.below(3) {
      case 0: bytes.removeLast(1 + random.below(bytes.count))
      case 1: bytes[random.below(bytes.count)] = UInt8(random.below(256))
      default: bytes = (0..<random.below(80)).map { _ in UInt8(random.below(256)) }
      }
      if (try? TaskRecord(bytes)) == nil || (try? QueuedTask(key: bytes, value: bytes)) == nil { refused += 1 }
    }
    #expect(refused > 500)
  }

  @Test func `fixed, stepped and exponential retries have the delays of their definitions`() {
    #expect(Retry.never.delay(failures: 1, chance: 0) == nil)
    #expect(Retry.fixed(.seconds(3)).delay(failures: 9, chance: 0) == .seconds(3))
    let steps = Retry.steps([.seconds(1), .seconds(5)])
    #expect(
      (1...4).map { steps.delay(failures: $0, chance: 0) } == [.seconds(1), .seconds(5), .seconds(5), .seconds(5)])
    #expect(Retry.steps([]).delay(failures: 1, chance: 0) == nil)
    let exponential = Retry.exponential(base: .seconds(2), factor: 3, cap: .seconds(50), jitter: 0)
    #expect(
      (1...5).map { exponential.delay(failures: $0, chance: 0) } == [2, 6, 18, 50, 50].map { Duration.seconds($0) })
    let jittered = Retry.exponential(base: .seconds(100), factor: 2, cap: .seconds(100), jitter: 0.1)
    #expect(
      jittered.delay(failures: 1, chance: 0) == .seconds(90) && jittered.delay(failures: 1, chance: 1) == .seconds(110))
    #expect(Retry.exponential().delay(failures: .max, chance: 0.5) == .seconds(3_600))
    #expect(Retry.fixed(.seconds(-1)).refusal != nil && Retry.exponential(factor: 0.5).refusal != nil)
    #expect(Retry.exponential(jitter: 2).refusal != nil && Retry.steps([.seconds(1)]).refusal == nil)
  }
}

struct WallTimeTests {
  @Test func `a task is not due before its date, however its milliseconds are rounded`() {
    for milliseconds in stride(from: Int64(1_795_000_000_000), to: 1_795_000_000_500, by: 1) {
      let date = Date(timeIntervalSince1970: Double(milliseconds) / 1_000)
      #expect(WallTime.milliseconds(date) == milliseconds && WallTime.passed(date) == milliseconds)
      let before = date.addingTimeInterval(-0.000_1)
      #expect(WallTime.milliseconds(before) == milliseconds && WallTime.passed(before) == milliseconds - 1)
      #expect(WallTime.wait(from: before, to: milliseconds) > .microseconds(99))
      #expect(WallTime.wait(from: date.addingTimeInterval(1), to: milliseconds) == .zero)
    }
    #expect(WallTime.passed(Date(timeIntervalSince1970: 1e15)) == WallTime.latest)
  }
}
