import EngineTestSupport
import Testing
import VarveTestSupport

@testable import Varve

/// Tests of random changes of rows with indexes of each kind, compared with a dictionary.
///
///     VARVE_TEST_SCALE=50 ./tools/test --filter IndexModelTests   # fifty times as many runs
///     VARVE_TEST_SEED=17 ./tools/test --filter IndexModelTests    # the run of one seed alone
struct IndexModelTests {
  @Test(arguments: StorageKind.allCases)
  func `indexes agree with a dictionary, through changes, savepoints, builds and other definitions`(
    kind: StorageKind
  ) throws {
    var counts = StepCounts<IndexStep>()
    for seed in ModelPlan.seeds(ModelPlan.indexRuns(kind)) {
      let run = try IndexRun(kind, seed: seed)
      do {
        try run.run(ModelPlan.indexSteps)
        try run.close()
      } catch {
        Issue.record(error, "\(kind), seed \(seed), after \(run.trace.suffix(3))")
        return
      }
      counts.add(run.counts)
    }
    // Each kind of step occurred.
    if ModelPlan.isWhole, TestScale.seed == nil {
      for step in IndexStep.allCases { #expect(counts[step] > 0, "\(step)") }
    }
  }
}

/// Tests of random queries, compared with an array.
///
///     VARVE_TEST_SCALE=50 ./tools/test --filter QueryModelTests
///     VARVE_TEST_SEED=17 ./tools/test --filter QueryModelTests
struct QueryModelTests {
  @Test(arguments: [StorageKind.memory, .toy])
  func `a query returns the instances that a filtered array has, by any plan`(kind: StorageKind) throws {
    var (served, ordered, refused, merged, intersected, paged) = (0, 0, 0, 0, 0, 0)
    for seed in ModelPlan.seeds(ModelPlan.queryRuns) {
      var run = try QueryRun(kind, seed: seed)
      do {
        try run.run(ModelPlan.indexSteps)
        try run.close()
      } catch {
        Issue.record(error, "\(kind), seed \(seed)")
        return
      }
      served += run.served
      ordered += run.ordered
      refused += run.refused
      merged += run.merged
      intersected += run.intersected
      paged += run.paged
    }
    // Each kind of query must have occurred often enough.
    let all = served + refused
    if ModelPlan.isWhole, TestScale.seed == nil {
      #expect(served > all / 3 && ordered > all / 50 && refused > all / 20)
      #expect(merged > all / 100 && intersected > all / 500 && paged > all / 40)
    }
  }
}
