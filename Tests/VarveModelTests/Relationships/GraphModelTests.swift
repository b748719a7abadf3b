import EngineTestSupport
import Testing
import VarveTestSupport

/// Tests of random rows with edges, compared with a model that applies the rules by their definition, in any order.
///
///     VARVE_TEST_SCALE=10 ./tools/test --filter GraphModelTests   # ten times as many runs
///     VARVE_TEST_SEED=17 ./tools/test --filter GraphModelTests    # the run of one seed alone
struct GraphModelTests {
  @Test(arguments: StorageKind.allCases)
  func `rows and edges equal those of a model of the rules, after changes in any order`(kind: StorageKind) throws {
    var counts = StepCounts<GraphStep>()
    var (removals, notified) = (0, 0)
    for seed in ModelPlan.seeds(ModelPlan.graphRuns(kind)) {
      let run = try GraphRun(kind, seed: seed)
      do {
        try run.run(ModelPlan.graphSteps)
        try run.close()
      } catch {
        Issue.record(
          error, "\(kind), seed \(seed), after \(run.trace.suffix(TestScale.count(40)).joined(separator: "\n"))")
        return
      }
      counts.add(run.counts)
      removals += run.ruleRemovals
      notified += run.notified
    }
    let listed = GraphStep.allCases.map { "\($0) \(counts[$0])" }.joined(separator: ", ")
    print("relationships, \(kind): \(removals) rows removed by rules, \(notified) notified; \(listed)")
    guard ModelPlan.isWhole, TestScale.seed == nil else { return }
    for step in GraphStep.allCases { #expect(counts[step] * 4_000 >= counts.total, "\(step)") }
    #expect(removals * 20 >= counts.total && notified * 40 >= counts.total)
  }
}
