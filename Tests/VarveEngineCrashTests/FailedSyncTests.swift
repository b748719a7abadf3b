import EngineTestSupport
import Synchronization
import Testing

@testable import VarveEngine

/// Tests of a sync of the log that fails, such that the system drops what it could not write, and of a power loss
/// after that.
///
/// The script is run once for each sync of a `.log` file, which then fails. From the failure on, crash points are
/// taken: at each step of logging again, and at a sample of the later operations. Everything that was guaranteed
/// before and after must be there.
struct FailedSyncTests {
  private static let seed: UInt64 = 20_240_711
  private static let operationCount = 160
  /// The number of disk operations after the failure that are all crash points: the restart of the log is among them.
  private static let restartOperations = 24
  /// The number of points that are tried for each failing sync.
  private static let trialsPerFailure = 3 * min(TestScale.value, 20)

  private struct Collected: Sendable {
    var logSyncs = 0
    var sinceFailure = 0
    var near: [CrashRecording.Point] = []
    var far: [CrashRecording.Point] = []
  }

  private struct Outcome {
    var recording: CrashRecording
    var unknownOutcomes: Int
    var logSyncs: Int
  }

  /// Runs the script with sync `number` of the log failing, or none.
  private static func run(failing number: Int?) throws -> Outcome {
    let disk = CrashFileSystem(seed: seed)
    if let number { disk.failSyncs(ofPathsEndingIn: ".log", after: number) }
    let driver = CrashDriver(disk, seed: seed)
    let found = Mutex(Collected())
    let progress = driver.shared
    disk.observe { operation, capture in
      found.withLock { found in
        if operation.kind == .sync && operation.path.hasSuffix(".log") { found.logSyncs += 1 }
        guard disk.failedSyncCount > 0 else { return }
        found.sinceFailure += 1
        let point = CrashRecording.Point(crash: capture(), guarantee: progress.guarantee)
        if found.sinceFailure <= restartOperations {
          found.near.append(point)
        } else if found.sinceFailure % 61 == 0 {
          found.far.append(point)
        }
      }
    }
    let summary = try CrashScript(seed: seed, operationCount: operationCount).run(on: disk, driver)
    disk.observe(nil)
    let collected = found.withLock { $0 }
    let recording = CrashRecording(
      seed: seed, points: collected.near + collected.far, model: driver.model, summary: summary, plainSummary: summary,
      operationKinds: [:])
    return Outcome(
      recording: recording, unknownOutcomes: driver.unknownOutcomes, logSyncs: collected.logSyncs)
  }

  @Test func `every guaranteed commit survives a crash after any failed sync of the log`() throws {
    let syncCount = try Self.run(failing: nil).logSyncs
    #expect(syncCount > 40)
    var random = SeededRandom(seed: Self.seed)
    var (unknown, recoveries, failures) = (0, 0, 0)
    for number in 0..<syncCount where failures < 3 {
      do {
        let outcome = try Self.run(failing: number)
        unknown += outcome.unknownOutcomes
        let points = outcome.recording.points
        for _ in 0..<min(Self.trialsPerFailure, points.count) {
          let trial = CrashTrial(
            recording: outcome.recording, point: points[random.below(points.count)],
            policy: CrashPolicy.allCases[random.below(3)], seed: random.next(), isExhaustive: false)
          recoveries += try trial.run().recoveries
        }
      } catch {
        failures += 1
        Issue.record("with sync \(number) of \(syncCount) failing: \(error)")
      }
    }
    print("failed syncs: \(syncCount) scripts, \(unknown) commits with an error, \(recoveries) recoveries")
    #expect(unknown > 5 && recoveries > syncCount)
  }

  private static let turns: Result<CrashRecording, any Error> = Result {
    try CrashRecording.make(
      seed: seed, operationCount: 1_500, pointLimit: 30 * min(TestScale.value, 50), mix: .turns)
  }

  /// The segments of the log are recycled several times while one family receives almost no writes.
  @Test(arguments: [CrashPolicy.loseAllUnsynced, .keepRandomSectors, .processKill])
  func `entries that are logged again survive a crash at any point`(policy: CrashPolicy) throws {
    let recording = try Self.turns.get()
    #expect(recording.bytesLoggedAgain > 0)
    var random = SeededRandom(seed: Self.seed)
    for point in recording.points {
      _ = try CrashTrial(recording: recording, point: point, policy: policy, seed: random.next(), isExhaustive: false)
        .run()
    }
  }
}
