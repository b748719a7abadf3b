import EngineTestSupport
import Testing
import VarveTestSupport

/// Tests of random operations on both kinds of views and on arrays: every answer must be the same.
///
///     VARVE_TEST_SCALE=50 ./tools/test --filter ViewModelTests   # fifty times as many steps
///     VARVE_TEST_SEED=17 ./tools/test --filter ViewModelTests    # the run of one seed alone
struct ViewModelTests {
  private static let stepsOfRun = 400
  private static let runs = TestScale.count(8)

  @Test func `views answer like arrays, whatever happens to the rows, the definitions and the database`() throws {
    var counts: [ViewStep: Int] = [:]
    for seed in TestScale.seed.map({ [$0] }) ?? (1...UInt64(Self.runs)).map({ $0 }) {
      let run = try ViewRun(seed: seed)
      do { try run.run(Self.stepsOfRun) } catch {
        Issue.record(error, "seed \(seed), after \(run.counts.values.reduce(0, +)) steps")
        return
      }
      counts.merge(run.counts) { $0 + $1 }
    }
    print("view model: \(counts.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", "))")
    guard TestScale.isWhole, TestScale.seed == nil else { return }
    #expect(counts.values.reduce(0, +) > 10_000)
    for step in ViewStep.allCases { #expect(counts[step, default: 0] >= 10, "\(step) was done too rarely") }
  }
}
