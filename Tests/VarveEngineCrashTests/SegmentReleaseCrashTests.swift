import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// Tests of a power loss while a flush frees the segments before the current one, of which no data was synced: at
/// every operation of the disk.
struct SegmentReleaseCrashTests {
  private static let putCount = 300

  private static func key(_ index: Int) -> [UInt8] { Array("key\(1_000 + index)".utf8) }

  private static func open(_ disk: CrashFileSystem, seed: UInt64) throws -> Engine {
    let executor = SteppedExecutor(seed: seed, clock: ManualClock(1_000_000_000))
    let numbers = Mutex(SeededRandom(seed: seed))
    var options = EngineOptions()
    options.memtableSize = 1 << 20
    options.cacheSize = 256 << 10
    options.logSegmentSize = 64 << 10
    let environment = EngineEnvironment(
      fileSystem: disk, clock: executor.clock, random: { numbers.withLock { $0.next() } },
      makeExecutor: { _ in executor })
    return try Engine.open(at: "/db", options: options, environment: environment)
  }

  private struct Recording {
    var points: [CrashPoint]
    var kinds: [String]
    var freedCount: Int
  }

  /// Writes several segments without a sync, and then flushes; every operation of the flush is a crash point.
  private static func record() throws -> Recording {
    let disk = CrashFileSystem(seed: 7)
    let engine = try open(disk, seed: 7)
    for index in 0..<putCount { try engine.put(key(index), [UInt8](repeating: 1, count: 700)) }
    let before = engine.statistics.log.segmentCount
    let points = Mutex<[(CrashPoint, String)]>([])
    disk.observe { operation, capture in
      let point = capture()
      points.withLock { $0.append((point, operation.description)) }
    }
    try engine.flush()
    let freedCount = before - engine.statistics.log.segmentCount
    disk.observe(nil)
    try engine.close()
    let all = points.withLock { $0 }
    return Recording(points: all.map(\.0), kinds: all.map(\.1), freedCount: freedCount)
  }

  @Test(arguments: CrashPolicy.allCases)
  func `after a crash at any operation that frees segments the remaining log has no gap`(policy: CrashPolicy) throws {
    let recording = try Self.record()
    #expect(recording.freedCount >= 2)
    var random = SeededRandom(seed: 8)
    var counts: [Int] = []
    for (index, point) in recording.points.enumerated() {
      let seed = random.next()
      let step = "point \(index), \(recording.kinds[index]), seed \(seed)"
      let engine: Engine
      do { engine = try Self.open(point.image(seed: seed, policy: policy), seed: seed) } catch {
        Issue.record("\(step): \(error)")
        continue
      }
      let isThere = try (0..<Self.putCount).map { try engine.get(Self.key($0)) != nil }
      let count = isThere.prefix { $0 }.count
      #expect(!isThere.dropFirst(count).contains(true), "\(step): a later put is there without an earlier one")
      counts.append(count)
      #expect(try engine.verify().faults.isEmpty, "\(step)")
      try engine.close()
    }
    #expect(policy != .processKill || counts.allSatisfy { $0 == Self.putCount })
    #expect(counts.last == Self.putCount, "after the flush all of them are durable")
  }
}
