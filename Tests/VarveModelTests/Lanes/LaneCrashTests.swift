import EngineTestSupport
import Synchronization
import Testing
import VarveEngine
import VarveTestSupport

@testable import Varve

/// Tests of a power loss, or the death of the process, at any disk operation while both lanes commit and definitions
/// are replaced.
///
/// The script runs once; at a sample of its operations, images of the disk are taken. On each image, the commits that
/// are found are a prefix of the order of all commits, over both lanes, and include all that must be durable.
/// Whichever definition the program registers, the content of extensions follows from the rows, and shared state from
/// the parts; both lanes can continue.
///
///     VARVE_TEST_SCALE=5 ./tools/test --filter LaneCrashTests
///     VARVE_TEST_SEED=17 ./tools/test --filter LaneCrashTests
///
/// The seed does not reproduce the threads of the lanes.
struct LaneCrashTests {
  private static let seed = TestScale.seed ?? 20_261_125
  private static let commitCount = 90
  private static let pointLimit = TestScale.count(60)

  private struct Point: Sendable {
    let crash: CrashPoint
    let guarantee: LaneScript.Guarantee
  }

  private struct Recording: Sendable {
    let points: [Point]
    let order: [LaneScript.Entry: UInt64]
    let acknowledgedBefore: [LaneScript.Entry: [Int]]
  }

  /// The definitions that a program registers after a restart.
  private enum Restart: CaseIterable { case inForce, shadow, both }

  private static func record(everyNth stride: Int) throws -> (recording: Recording, operationCount: Int) {
    let disk = CrashFileSystem(seed: seed)
    let script = LaneScript(seed: seed, commitCount: commitCount)
    let database = try LaneScript.open(disk, seed: seed)
    try LaneScript.begin(database)
    // From here on each image contains the registrations.
    let points = Mutex<[Point]>([])
    disk.observe { operation, capture in
      guard operation.number % stride == 0 else { return }
      let guarantee = script.guarantee
      points.withLock { $0.append(Point(crash: capture(), guarantee: guarantee)) }
    }
    let errors = script.run(database)
    guard errors.isEmpty else { throw ContractBroken("the lanes threw \(errors)") }
    try script.settle(database)
    disk.observe(nil)
    let order = try database.core.read { try LaneCheck.entries($0) }
    guard order.count == LaneScript.Lane.allCases.count * commitCount, Set(order.values).count == order.count else {
      throw ContractBroken("\(order.count) commits have \(Set(order.values).count) stamps")
    }
    try LaneCheck.checkContent(
      database, rows: LaneScript.rows(after: commitCount), versions: [script.guarantee.version])
    let count = disk.operationCount
    try database.close()
    return (
      Recording(points: points.withLock { $0 }, order: order, acknowledgedBefore: script.acknowledgedBefore), count
    )
  }

  @Test func `a crash leaves a prefix of the commits of both lanes, and the right contents of all extensions`()
    async throws
  {
    try await Threads.alone {
      let count = try Self.record(everyNth: Int.max).operationCount
      let recording = try Self.record(everyNth: max(1, count / Self.pointLimit)).recording
      var found: [String: Int] = [:]
      var counts: Set<[Int]> = []
      for (index, point) in recording.points.enumerated() {
        for policy in CrashPolicy.allCases {
          let seed = Self.seed &* 31 &+ UInt64(index)
          do { counts.insert(try Self.trial(point, recording, policy, seed, &found)) } catch {
            Issue.record(
              error,
              "VARVE_TEST_SEED=\(Self.seed), image \(index), \(point.crash.operation.map { "\($0)" } ?? ""), \(policy)")
            return
          }
        }
      }
      print(
        "lane crashes: seed \(Self.seed), \(2 * Self.commitCount) commits, \(recording.points.count) images in",
        "\(CrashPolicy.allCases.count) ways, \(counts.count) numbers of commits,",
        "\(found.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" })")
      guard TestScale.isWhole else { return }
      #expect(counts.count > 20)
      // The sample must contain each state of a replacement, each restart, and images without commits that did not
      // have to be durable.
      for what in ["shadow", "no shadow", "lost", "inForce", "shadow registered", "both"] {
        #expect(found[what, default: 0] >= 5, "\(what)")
      }
    }
  }

  /// Opens an image, checks it, commits on both lanes, and opens it again. Returns how many commits of each lane were
  /// there.
  private static func trial(
    _ point: Point, _ recording: Recording, _ policy: CrashPolicy, _ seed: UInt64, _ found: inout [String: Int]
  ) throws -> [Int] {
    let disk = point.crash.image(seed: seed, policy: policy)
    let database = try LaneScript.open(disk, seed: seed)
    found[database.core.extensionCatalog.record("deriving")?.shadow == nil ? "no shadow" : "shadow", default: 0] += 1
    let next = point.guarantee.pending ?? point.guarantee.version + 1
    var version = next
    switch Restart.allCases[Int(seed % 3)] {
    case .inForce:
      version = point.guarantee.version
      found["inForce", default: 0] += 1
      try LaneScript.register(database, version: version)
    case .shadow:
      found["shadow registered", default: 0] += 1
      try LaneScript.register(database, version: version)
    case .both:
      found["both", default: 0] += 1
      try LaneScript.register(database, version: version, replacing: point.guarantee.version)
    }
    let check = LaneCheck(
      guarantee: point.guarantee, acknowledgedBefore: recording.acknowledgedBefore, order: recording.order,
      losesPower: policy != .processKill)
    let counts = try check.count(database)
    if counts != point.guarantee.begun { found["lost", default: 0] += 1 }
    try LaneCheck.checkContent(database, rows: LaneScript.rows(after: counts[0]), versions: [version])
    // Both lanes must be able to continue.
    let script = LaneScript(seed: seed, commitCount: counts[0])
    for lane in LaneScript.Lane.allCases {
      let entry = LaneScript.Entry(lane: lane, number: counts[Int(lane.rawValue)] + 1)
      try script.commit(entry, lane == .writer ? .process : .power, database)
    }
    try LaneCheck.checkContent(database, rows: LaneScript.rows(after: counts[0] + 1), versions: [version])
    guard try database.core.read({ try LaneCheck.entries($0) }).count == counts[0] + counts[1] + 2 else {
      throw ContractBroken("the commits after the crash are not there")
    }
    try database.close()
    let again = try LaneScript.open(disk, seed: seed &+ 1)
    try LaneScript.register(again, version: version)
    try LaneCheck.checkContent(again, rows: LaneScript.rows(after: counts[0] + 1), versions: [version])
    try again.close()
    return counts
  }
}
