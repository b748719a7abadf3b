import EngineTestSupport
import Testing
import VarveTestSupport

@testable import Varve

/// Extensions compared with a model: after random steps, their contents are those that the model derives.
///
///     VARVE_TEST_SCALE=50 ./tools/test --filter ExtensionModelTests   # fifty times as many runs
///     VARVE_TEST_SEED=17 ./tools/test --filter ExtensionModelTests    # the run of one seed alone
struct ExtensionModelTests {
  @Test(arguments: StorageKind.allCases)
  func `extensions keep the contents that the model derives, whatever happens`(kind: StorageKind) async throws {
    try await Self.runAll(kind, nil, ModelPlan.extensionRuns(kind), "extensions, \(kind)")
  }

  /// Commits become durable late, and checked ones are refused at random.
  @Test func `extensions have the model's contents on a storage that delays and refuses commits`() async throws {
    var faults = ToyFaults()
    faults.lateOneIn = 2
    faults.conflictOneIn = 40
    try await Self.runAll(.toy, faults, ModelPlan.lateExtensionRuns, "extensions, late toy")
  }

  /// Runs on a separate thread, because it blocks on tasks.
  private static func runAll(
    _ kind: StorageKind, _ faults: ToyFaults?, _ runCount: Int, _ name: String
  ) async throws {
    try await Threads.alone { try run(kind, faults, runCount, name) }
  }

  private static func run(_ kind: StorageKind, _ faults: ToyFaults?, _ runCount: Int, _ name: String) throws {
    let seeds = ModelPlan.seeds(runCount)
    var counts = StepCounts<ExtensionStep>()
    let clock = ContinuousClock()
    let start = clock.now
    for seed in seeds {
      var seeded = faults
      seeded?.seed = seed
      let run = try ExtensionRun(kind, seed: seed, faults: seeded)
      do { try run.run(stepCount: ModelPlan.extensionSteps) } catch {
        Issue.record(error, "VARVE_TEST_SEED=\(seed) (\(name)) shows it again; the last steps: \(run.trace)")
        return
      }
      counts.add(run.counts)
    }
    let seconds = start.duration(to: clock.now) / .seconds(1)
    let listed = ExtensionStep.allCases.map { "\($0) \(counts[$0])" }.joined(separator: ", ")
    print(
      "\(name): seeds \(seeds), \(counts.total) steps in \(Int(seconds)) s,",
      "\(Int(Double(counts.total) / seconds)) a second: \(listed)")
    guard TestScale.seed == nil else { return }
    #expect(counts.total >= seeds.count * ModelPlan.extensionSteps)
    guard ModelPlan.isWhole else { return }
    for step in ExtensionStep.allCases {
      #expect(counts[step] * 20_000 >= counts.total, "\(name): \(step) is \(counts[step]) of \(counts.total)")
    }
  }
}
