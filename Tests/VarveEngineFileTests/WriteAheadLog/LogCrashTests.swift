import EngineTestSupport
import Synchronization
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of the log alone, on a disk that loses power at every store and every file-system operation.
struct LogCrashTests {
  /// The guarantees of the log, and the state that a MANIFEST would contain.
  private struct Progress: Sendable {
    /// The last batch that was begun; below, the last that was appended, and the last that was synced.
    var begun: UInt64 = 0
    var appended: UInt64 = 0
    var synced: UInt64 = 0
    /// The oldest segment, or `nil` until the log's first segment is durable.
    var oldest: FileNumber?
    /// The first batch in the oldest segment.
    var first: UInt64 = 1
  }

  private struct Point: Sendable {
    let crash: CrashPoint
    let progress: Progress
  }

  private static let segmentSize = 8 << 10

  /// Records a run of appends, syncs, end records, segments that fill, and segments that are reused.
  private func record(seed: UInt64, mapping: Bool, stepCount: Int) throws -> [Point] {
    let disk = CrashFileSystem(seed: seed)
    let shared = Mutex((progress: Progress(), points: [Point]()))
    disk.observe { _, capture in
      let crash = capture()
      shared.withLock { $0.points.append(Point(crash: crash, progress: $0.progress)) }
    }
    let log = try LogHarness(on: disk, seed: seed, mapping: mapping, segmentSize: Self.segmentSize)
    shared.withLock { $0.progress.oldest = log.writer.currentNumber }
    var random = SeededRandom(seed: seed)
    var firsts: [FileNumber: UInt64] = [log.writer.currentNumber: 1]
    for _ in 0..<stepCount {
      switch random.below(100) {
      case 0..<60:
        let number = shared.withLock { state in
          state.progress.begun += 1
          return state.progress.begun
        }
        try log.append(valueSize: 8 + random.below(random.oneIn(20) ? 3_000 : 200))
        if firsts[log.writer.currentNumber] == nil { firsts[log.writer.currentNumber] = number }
        shared.withLock { $0.progress.appended = number }
      case 60..<80:
        try log.sync()
        shared.withLock { $0.progress.synced = $0.progress.appended }
      case 80..<85:
        try log.writer.appendEnd(
          nextSequence: SequenceNumber(shared.withLock { $0.progress.appended } + 1), .beforeOpen)
      case 85..<95: log.executor.step()
      default:
        // Simulates a flush: the log must be durable before an edit names its oldest segment, or only the segment's
        // header if tables contain everything before it.
        let numbers = log.writer.segmentEnds.map(\.number)
        let oldest = random.oneIn(2) ? log.writer.currentNumber : numbers[random.below(numbers.count)]
        guard let first = firsts[oldest] else { break }
        let syncsAll = random.oneIn(2)
        let target: LogWriter.SyncTarget = syncsAll ? .position(log.writer.appendedPosition) : .segment(oldest)
        guard case .durable = log.writer.trySync(target, visible: { .zero }) else {
          Issue.record("the sync failed")
          return []
        }
        shared.withLock { state in
          if syncsAll { state.progress.synced = state.progress.appended }
          state.progress.oldest = oldest
          state.progress.first = first
        }
        log.writer.release(before: oldest)
      }
    }
    disk.observe(nil)
    return shared.withLock { $0.points }
  }

  /// Checks the recovered batches, and returns the last one.
  private func check(_ found: [UInt64], _ progress: Progress, required: UInt64, _ location: String) -> UInt64 {
    let last = found.last ?? progress.first - 1
    let isRun = found.elementsEqual(progress.first..<(last + 1))
    #expect(isRun, "\(location): not a prefix from \(progress.first): \(found.suffix(20))")
    #expect(last >= required, "\(location): \(required) was promised, \(last) is the last")
    #expect(last <= progress.begun, "\(location): \(last) was never begun")
    return last
  }

  @Test(arguments: [true, false])
  func `after a crash at any store the log is a prefix that contains every synced record`(mapping: Bool) throws {
    let seed: UInt64 = 31
    let points = try record(seed: seed, mapping: mapping, stepCount: min(400 * TestScale.value, 8_000))
    var recoveries = 0
    for (index, point) in points.enumerated() {
      guard let oldest = point.progress.oldest else { continue }
      for policy in CrashPolicy.allCases {
        let location = "seed \(seed), mapping \(mapping), \(point.crash.operation.map { "\($0)" } ?? ""), \(policy)"
        var random = SeededRandom(seed: UInt64(index) << 8 | UInt64(policy.rawValue.utf8.count))
        let disk = point.crash.image(seed: random.next(), policy: policy)
        let recovered = try LogHarness.recover(disk, oldest: oldest)
        let required = policy == .processKill ? point.progress.appended : point.progress.synced
        let last = check(recovered.sequences, point.progress, required: required, location)
        try crashAgain(disk, point.progress, oldest, recovered, last: last, mapping, &random, location)
        recoveries += 2
      }
    }
    print("log crash suite, mapping \(mapping): \(points.count) points, \(recoveries) recoveries")
    #expect(recoveries > 2_000)
  }

  /// Continues the log after the recovered records, and crashes again.
  private func crashAgain(
    _ disk: CrashFileSystem, _ before: Progress, _ oldest: FileNumber, _ recovered: LogHarness.Recovered, last: UInt64,
    _ mapping: Bool, _ random: inout SeededRandom, _ location: String
  ) throws {
    disk.crashAfter(operation: 1 + random.below(30))
    var progress = before
    progress.begun = last
    progress.synced = last
    var cuts: [FileNumber: LogRecovery.Cut] = [:]
    do {
      // As in the engine, segments past the cut are removed before a new segment extends the chain.
      for number in recovered.outcome.dropped {
        try disk.remove(LogHarness.directory + "/" + FileName.log(number).name)
      }
      try disk.syncDirectory(LogHarness.directory)
      let log = try LogHarness(
        on: disk, seed: random.next(), mapping: mapping, segmentSize: Self.segmentSize, recovered: recovered,
        firstSequence: last + 1)
      // At this point, the engine makes the cut durable.
      for link in recovered.outcome.chain.suffix(1) {
        cuts[link.number] = LogRecovery.Cut(lifeID: link.lifeID, end: UInt64(link.end))
      }
      for _ in 0..<10 {
        progress.begun += 1
        try log.append(valueSize: 8 + random.below(600))
        if random.oneIn(3) {
          try log.sync()
          progress.synced = progress.begun
        }
      }
    } catch {
      guard disk.hasCrashed else { throw error }
    }
    let isSyncCut = disk.hasCrashed
    disk.crash()
    let policy = CrashPolicy.allCases[random.below(CrashPolicy.allCases.count)]
    let image = disk.crashImage(seed: random.next(), policy: policy)
    let again = try LogHarness.recover(image, oldest: oldest, cuts: cuts)
    _ = check(
      again.sequences, progress, required: progress.synced, "\(location), then \(policy) (cut: \(isSyncCut))")
  }
}
