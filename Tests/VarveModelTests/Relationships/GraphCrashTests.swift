import EngineTestSupport
import Synchronization
import Testing
import VarveTestSupport

@testable import Varve

/// Tests of a power loss, or the death of the process, at any disk operation while rules remove rows, rows are
/// notified and edges are added.
///
/// The script runs once, and its states are recorded; at a sample of its operations, images of the disk are taken. On
/// each image, the database has the first transactions, complete, including all that must be durable: rows, the edges
/// of both families and dangling edges. Rules continue from there.
///
///     VARVE_TEST_SCALE=5 ./tools/test --filter GraphCrashTests
///     VARVE_TEST_SEED=17 ./tools/test --filter GraphCrashTests
struct GraphCrashTests {
  private static let seed = TestScale.seed ?? 20_261_127
  private static let transactionCount = 80
  private static let pointLimit = TestScale.count(60)

  private struct Point: Sendable {
    let crash: CrashPoint
    let guarantee: CrashedGuarantee
  }

  private struct Recording: Sendable {
    var points: [Point] = []
    var states: [GraphCrashScript.State] = []
    var ruleRemovals = 0
    var operationCount = 0
  }

  private static func record(everyNth stride: Int) throws -> Recording {
    let disk = CrashFileSystem(seed: seed)
    let database = try GraphCrashScript.open(disk, seed: seed)
    let script = GraphCrashScript(database, seed: seed)
    let progress = script.progress
    let points = Mutex<[Point]>([])
    // From here on each image contains the registered relationships.
    let before = disk.operationCount
    disk.observe { operation, capture in
      guard operation.number % stride == 0 else { return }
      points.withLock { $0.append(Point(crash: capture(), guarantee: progress.guarantee)) }
    }
    for _ in 0..<transactionCount { try script.commit() }
    disk.observe(nil)
    let count = disk.operationCount - before
    try database.close()
    return Recording(
      points: points.withLock { $0 }, states: script.states, ruleRemovals: script.ruleRemovals, operationCount: count)
  }

  @Test func `a crash leaves complete transactions, with the removals by rules and the edges of both families`() throws
  {
    let count = try Self.record(everyNth: Int.max).operationCount
    let recording = try Self.record(everyNth: max(1, count / Self.pointLimit))
    var counts: Set<Int> = []
    var lostCount = 0
    for (index, point) in recording.points.enumerated() {
      for policy in CrashPolicy.allCases {
        let seed = Self.seed &* 31 &+ UInt64(index)
        do {
          let count = try Self.trial(point, recording.states, policy, seed)
          counts.insert(count)
          if count < point.guarantee.begun { lostCount += 1 }
        } catch {
          Issue.record(
            error,
            "VARVE_TEST_SEED=\(Self.seed), image \(index), \(point.crash.operation.map { "\($0)" } ?? ""), \(policy)")
          return
        }
      }
    }
    print(
      "crashes of relationships: seed \(Self.seed), \(recording.points.count) images in \(CrashPolicy.allCases.count)",
      "ways, \(counts.count) numbers of transactions, \(lostCount) without the last ones,",
      "\(recording.ruleRemovals) rows removed by rules")
    guard TestScale.isWhole else { return }
    #expect(counts.count > 20 && lostCount > 10)
    #expect(recording.ruleRemovals > Self.transactionCount / 4)
    let edges = recording.states.count { $0.lines.contains { $0.hasPrefix("edge") } }
    #expect(edges > Self.transactionCount / 2, "\(edges) states have edges")
  }

  /// Opens an image, checks it, continues, and opens it again. Returns how many transactions were there.
  private static func trial(
    _ point: Point, _ states: [GraphCrashScript.State], _ policy: CrashPolicy, _ seed: UInt64
  ) throws -> Int {
    let disk = point.crash.image(seed: seed, policy: policy)
    let database = try GraphCrashScript.open(disk, seed: seed)
    let found = try GraphCrashScript.state(database)
    let promised = policy == .processKill ? point.guarantee.process : point.guarantee.power
    guard (promised...point.guarantee.begun).contains(found.number) else {
      throw ContractBroken("\(found.number) transactions are there, \(point.guarantee) was promised")
    }
    try found.compare(states[found.number])
    let script = GraphCrashScript(database, seed: seed)
    for _ in 0..<3 { try script.commit() }
    let last = try GraphCrashScript.state(database)
    try database.close()
    let again = try GraphCrashScript.open(disk, seed: seed &+ 1)
    try GraphCrashScript.state(again).compare(last)
    try again.close()
    return found.number
  }
}
