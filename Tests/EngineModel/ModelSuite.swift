import EngineTestSupport
import Testing
import VarveEngine

/// The runs of the model suite, each with its own seed.
enum ModelSuite {
  private static let stepCount = TestScale.atMost(25_000)
  private static let runCount = 20

  static func runAll(_ execution: ModelEnvironment.Execution) throws {
    let chosen = TestScale.seed
    let seeds = chosen.map { $0...$0 } ?? 1...UInt64(TestScale.count(runCount))
    var counts = OperationCounts()
    var installCount = 0
    let clock = ContinuousClock()
    let start = clock.now
    for seed in seeds {
      let run = try ModelRun(execution, seed: seed, stepCount: stepCount)
      do {
        try run.run()
      } catch {
        Issue.record(error, "VARVE_TEST_SEED=\(seed) (\(execution.rawValue)) shows it again")
        return
      }
      counts.add(run.counts)
      installCount += run.world.watch.installCount
    }
    let elapsed = start.duration(to: clock.now) / .seconds(1)
    print(
      "model (\(execution.rawValue)): seeds \(seeds), \(counts.total) operations in \(Int(elapsed)) s,",
      "\(Int(Double(counts.total) / elapsed)) a second,",
      "content compared around \(installCount) changes of tables")
    // The mix of operations is drawn for each run: only many runs together contain enough of each kind.
    guard chosen == nil, TestScale.isWhole else { return }
    #expect(execution == .threads || installCount >= 1_000)
    for kind in OperationKind.allCases {
      #expect(counts[kind] * 100 >= counts.total, "\(kind): \(counts[kind]) of \(counts.total), seeds \(seeds)")
    }
  }
}
