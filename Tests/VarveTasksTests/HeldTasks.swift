import EngineTestSupport
import Varve
import VarveTestSupport

@_spi(Extensions) @testable import VarveTasks

/// A database whose commits wait while a gate is shut, and its scheduler. The gate is open at first.
struct HeldTasks {
  let gate = Gate()
  let backend: HeldBackend
  let fixture: TaskFixture

  /// Creates an empty database whose commits of the durability `held` wait; with `nil`, all commits wait.
  init(holding held: StorageDurability?, rules: [QueueSelector: QueueRules] = [:], workers: Int = 2) throws {
    backend = HeldBackend(try EngineBackend.inMemory(), gate, holding: held)
    fixture = try TaskFixture(over: backend, rules: rules, workers: workers)
  }

  func waitUntilHeld(_ count: Int = 1) async { await fixture.poll { gate.waitingCount >= count } }
}
