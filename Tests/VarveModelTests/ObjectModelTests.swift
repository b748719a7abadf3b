import EngineTestSupport
import Testing
import VarveTestSupport

@testable import Varve

/// Tests of random transactions on a database and on dictionaries: every result must be the same.
///
///     VARVE_TEST_SCALE=50 ./tools/test --filter ObjectModelTests   # fifty times as many runs
///     VARVE_TEST_SEED=17 ./tools/test --filter ObjectModelTests    # the runs of one seed alone
///
/// A failure reports its seed and the last steps. The seed reproduces everything except concurrent threads.
struct ObjectModelTests {
  @Test(arguments: StorageKind.allCases)
  func `a database answers like the model`(kind: StorageKind) throws {
    try Self.runAll(kind, faults: nil, "model, \(kind)")
  }

  /// Commits become durable late, calls complete in any order, and checked commits are refused at random: the results
  /// must stay the same.
  @Test func `a database answers like the model on a storage that delays and refuses commits`() throws {
    var faults = ToyFaults()
    faults.lateOneIn = 2
    faults.conflictOneIn = 3
    faults.yieldMaximum = 2
    let runs = try Self.runAll(.toy, faults: faults, "model, late toy")
    #expect(runs.faultCount == 0)
  }

  /// The faults are commits with unknown outcome, commits that cannot be made durable, and expired snapshots: each
  /// results in an error, and after reopening the database has all of a transaction or none of it.
  @Test func `a database on a failing storage loses no acknowledged transaction, and applies none partially`() throws {
    var faults = ToyFaults()
    faults.lateOneIn = 3
    faults.unknownOneIn = 12
    faults.failingOneIn = 12
    faults.tooOldOneIn = 400
    faults.conflictOneIn = 5
    let runs = try Self.runAll(.toy, faults: faults, "model, failing toy")
    #expect(!TestScale.isWhole || TestScale.seed != nil || runs.unknownOutcomes > 40)
  }

  /// The counts of all runs together.
  private struct Totals {
    var counts = StepCounts<ModelStep>()
    var faultCount = 0
    var unknownOutcomes = 0
    var extensions: [ObjectRun.ExtensionStep: Int] = [:]
  }

  @discardableResult
  private static func runAll(_ kind: StorageKind, faults: ToyFaults?, _ name: String) throws -> Totals {
    let seeds = ModelPlan.seeds(ModelPlan.rowRuns)
    var totals = Totals()
    let clock = ContinuousClock()
    let start = clock.now
    for seed in seeds {
      var seeded = faults
      seeded?.seed = seed
      let run = try ObjectRun(kind, seed: seed, faults: seeded)
      do {
        try run.run(stepCount: ModelPlan.rowSteps)
      } catch {
        run.endPinned()
        Issue.record(error, "VARVE_TEST_SEED=\(seed) (\(name)) shows it again; the last steps: \(run.trace.suffix(20))")
        return totals
      }
      totals.counts.add(run.counts)
      totals.extensions.merge(run.extensions.counts, uniquingKeysWith: +)
      totals.faultCount += run.faultCount
      totals.unknownOutcomes += run.unknownOutcomes
    }
    let seconds = start.duration(to: clock.now) / .seconds(1)
    let total = totals.counts.total
    print(
      "\(name): seeds \(seeds), \(total) steps in \(Int(seconds)) s, \(Int(Double(total) / seconds)) a second,",
      "\(totals.faultCount) faults, \(totals.unknownOutcomes) unknown outcomes,",
      "extensions \(totals.extensions.map { "\($0.key) \($0.value)" }.sorted())")
    guard TestScale.seed == nil else { return totals }
    #expect(total >= seeds.count * ModelPlan.rowSteps)
    guard TestScale.isWhole else { return totals }
    if faults == nil {
      for step in ObjectRun.ExtensionStep.allCases {
        #expect(totals.extensions[step, default: 0] * 4_000 >= total, "\(name): \(step) of \(total)")
      }
    }
    for step in ModelStep.allCases where step != .follow || faults == nil {
      let count = totals.counts[step]
      #expect(count * 100 >= total, "\(name): \(step) is \(count) of \(total)")
    }
    return totals
  }
}
