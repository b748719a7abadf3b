import EngineTestSupport
import Testing

@testable import VarveEngine

/// Tests of the engine on a disk that loses power at every operation.
///
/// A script of 2,000 operations runs once with a mapped log, and once without. At each file-system operation and each
/// store to the log (in CI at a sample of them), a copy-on-write image is taken. On each image the engine opens, is
/// compared with the model, writes more, crashes again and opens again; its recovery is crashed, too.
struct EngineCrashTests {
  /// From scale 20 on, every operation is tested; below that, a sample.
  private static let pointLimit = TestScale.value >= 20 ? Int.max / 2 : TestScale.count(120)
  /// The number of images whose recovery is crashed at each of its operations: about 50 over the four policies.
  private static let exhaustiveLimit = 13
  private static let seeds: [UInt64] = (0..<max(1, TestScale.value / 20)).map { 20_240_601 + UInt64($0) }

  private static let recordings: Result<[CrashRecording], any Error> = Result {
    try seeds.map { try CrashRecording.make(seed: $0, operationCount: 2_000, pointLimit: pointLimit) }
      + [try CrashRecording.make(seed: 3, operationCount: 2_000, pointLimit: pointLimit / 4, mapsFiles: false)]
  }

  @Test func `the crash script has one trace per seed, and every kind of operation`() throws {
    for recording in try Self.recordings.get() {
      #expect(recording.summary == recording.plainSummary, "seed \(recording.seed) gave two runs")
      #expect(recording.summary.installCount >= 20)
      let total = recording.summary.counts.values.reduce(0, +)
      for kind in CrashScript.Kind.allCases {
        let count = recording.summary.counts[kind.rawValue] ?? 0
        #expect(count * 100 >= total, "\(kind) is \(count) of \(total) operations of seed \(recording.seed)")
      }
      let kinds: [CrashOperation.Kind] = [.createFile, .rename, .remove, .syncDirectory, .write, .store, .sync]
      for kind in kinds where kind != .store || recording.seed != 3 {
        #expect(recording.operationKinds[kind.rawValue] ?? 0 > 0, "no \(kind) on the disk")
      }
      print(
        "crash script, seed \(recording.seed): \(recording.summary.batchCount) batches, "
          + "\(recording.summary.diskOperations) disk operations \(recording.operationKinds.sorted { $0.key < $1.key }), "
          + "trace hash \(String(recording.summary.traceHash, radix: 16)), \(recording.points.count) points, "
          + "content compared around \(recording.summary.installCount) changes of tables")
    }
  }

  @Test(arguments: CrashPolicy.allCases)
  func `after a crash at any operation every guaranteed commit is there, whole and in order`(policy: CrashPolicy) throws
  {
    let start = ContinuousClock.now
    var total = CrashTrial.Count()
    var images = 0
    var failures = 0
    for recording in try Self.recordings.get() {
      let exhaustiveStride = max(1, recording.points.count / Self.exhaustiveLimit)
      for (index, point) in recording.points.enumerated() where failures < 3 {
        var random = SeededRandom(seed: recording.seed &* 1_000_003 &+ UInt64(index))
        let trial = CrashTrial(
          recording: recording, point: point, policy: policy, seed: random.next(),
          isExhaustive: index % exhaustiveStride == 0)
        images += 1
        do {
          let count = try trial.run()
          total.recoveries += count.recoveries
          total.recoveryCrashes += count.recoveryCrashes
        } catch {
          failures += 1
          Issue.record("\(error)")
        }
      }
    }
    let seconds = (ContinuousClock.now - start) / .seconds(1)
    print(
      "crash suite, \(policy.rawValue): \(images) images, \(total.recoveries) recoveries, \(total.recoveryCrashes) of "
        + "them of a crashed recovery, \(Int(Double(total.recoveries) / max(seconds, 0.001))) a second")
    #expect(images >= min(Self.pointLimit / 2, 60))
  }
}
