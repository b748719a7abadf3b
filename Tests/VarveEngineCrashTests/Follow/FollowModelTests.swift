import EngineTestSupport
import Testing

@testable import EngineFixtures
@testable import VarveEngine

/// Tests of random work of writers and readers: each state that a reader shows equals one prefix of the commits.
///
///     VARVE_TEST_SCALE=20 ./tools/test --filter FollowModelTests   # a million steps
///     VARVE_TEST_SEED=17 ./tools/test --filter FollowModelTests    # the run of one seed alone
///
/// A failure names its seed, its step and the last operations.
struct FollowModelTests {
  private static let stepCount = 2_500

  private static func run(_ seeds: ClosedRange<UInt64>, _ makeRun: (UInt64) throws -> FollowModelRun) throws {
    var counts: [FollowModelRun.Operation: Int] = [:]
    var bytesLoggedAgain: UInt64 = 0
    for seed in TestScale.seed.map({ $0...$0 }) ?? seeds {
      let run = try makeRun(seed)
      try run.run(stepCount: stepCount)
      counts.merge(run.counts, uniquingKeysWith: +)
      bytesLoggedAgain += run.bytesLoggedAgain
    }
    guard TestScale.seed == nil else { return }
    for operation in FollowModelRun.Operation.allCases {
      #expect(counts[operation, default: 0] > 0, "\(operation.rawValue)")
    }
    #expect(bytesLoggedAgain > 0)
  }

  /// 20,000 steps.
  private static var seeds: ClosedRange<UInt64> { 1...UInt64(8 * TestScale.value) }

  @Test func `readers that poll the log see one prefix of the commits`() throws {
    try Self.run(Self.seeds) { try FollowModelRun(seed: $0, isNotified: false) }
  }

  @Test func `readers that are notified see one prefix of the commits`() throws {
    try Self.run(Self.seeds) { try FollowModelRun(seed: 1_000_000 + $0, isNotified: true) }
  }

  /// 10,000 steps.
  @Test func `readers of real files see one prefix of the commits`() throws {
    let directory = try TemporaryDirectory()
    try Self.run(1...UInt64(4 * TestScale.value)) { seed in
      try FollowModelRun(
        seed: 2_000_000 + seed, isNotified: true, on: PosixFileSystem(), at: directory.path + "/db\(seed)")
    }
  }
}
