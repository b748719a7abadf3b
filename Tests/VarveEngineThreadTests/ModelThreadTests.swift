import Testing

@testable import EngineModel

/// Runs `ModelTests` on real threads.
struct ModelThreadTests {
  @Test func `an engine answers like the model, with background work on threads`() throws {
    try ModelSuite.runAll(.threads)
  }
}
