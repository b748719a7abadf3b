import Testing

@testable import EngineModel

/// Tests of random operations on an engine and on a sorted array: every answer must be the same.
///
///     VARVE_TEST_SCALE=50 ./tools/test --filter 'Model(Thread)?Tests'   # fifty times as many runs
///     VARVE_TEST_SEED=17 ./tools/test --filter 'Model(Thread)?Tests'    # the runs of one seed alone
///
/// A failure names its seed, its step and the last operations.
struct ModelTests {
  @Test func `an engine answers like the model, with background work in an order drawn from the seed`() throws {
    try ModelSuite.runAll(.stepped)
  }
}
