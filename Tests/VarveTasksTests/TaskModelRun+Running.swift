import EngineTestSupport
import FutexLocks
import Varve
import VarveTesting

@_spi(Testing) @testable import VarveTasks

/// Steps in which tasks run for a while: their handlers wait at a gate.
extension TaskModelRun {
  /// Lets tasks begin whose handlers wait, and then ends them, or the process.
  ///
  /// Returns whether a scheduler was started on the state that another one has left.
  func hold() async throws -> Bool {
    let isCrash = random.oneIn(3)
    note(.hold, "hold")
    gate.close(ignoringCancellation: isCrash)
    try fixture.write { tx in
      for _ in 0...random.below(3) { try change(tx) }
    }
    model.committed = number
    try await observe()
    if isCrash {
      try await crash()
      return true
    }
    model.finishRunning()
    gate.open()
    return false
  }

  /// Waits until no more tasks begin, and compares those that run with those that may, by the model.
  ///
  /// Which of several queues has its turn is not predicted, so the model takes over the choice.
  private func observe() async throws {
    let (dispatcher, gate) = (fixture.scheduler.dispatcher, gate)
    if let host = dispatcher.timerFired() { host.wake() }
    await fixture.poll {
      let isCalm = dispatcher.state.withLock { !$0.isPumping && $0.settlements.isEmpty && $0.requests.isEmpty }
      return isCalm && gate.count == dispatcher.state.withLock { $0.startedCount }
    }
    let claimed = dispatcher.state.withLock { Array($0.running.keys) }
    let numbers = Dictionary(uniqueKeysWithValues: ids.map { ($0.value, $0.key) })
    let found = Set(claimed.compactMap { numbers[$0] })
    try require(found.count == claimed.count, "a task runs that should be gone")
    model.settleEarlier()
    let before = Set(model.running)
    try require(before.isSubset(of: found), "\(before.subtracting(found)) should run")
    try require(!found.isEmpty || !model.hasNext, "no task runs, although some may")
    for number in found.subtracting(before).sorted() {
      let task = model.tasks[number].map { "\($0)" } ?? ""
      try require(model.mayBegin(number), "task \(number) runs, and should not: \(task)")
      model.begin(number)
    }
    trace.append("running \(found.sorted())")
  }

  /// Lets the process die while handlers run, and opens an image of its files.
  private func crash() async throws {
    note(.crash, "crash")
    let image = disk.crashImage(seed: random.next(), policy: .processKill)
    let (old, clock) = (fixture, fixture.clock)
    old.scheduler.die()
    gate.open(passing: false)
    try await old.database.close()
    disk = image
    gate = HandlerGate()
    fixture = try Self.fixture(try Self.open(image), gate, clock)
    _ = model.takeLog()
    // The disk has the state at the death of the process.
    try compareStates()
    model.crash()
    try await startHeld()
  }

  /// Starts another scheduler on an open database.
  func startAgain(_ database: Database) async throws {
    gate = HandlerGate()
    fixture = try Self.fixture(database, gate, fixture.clock)
    try await startHeld()
  }

  /// Starts the scheduler, compares all states before a handler ends, and then lets the handlers end.
  private func startHeld() async throws {
    gate.close(ignoringCancellation: false)
    try await fixture.scheduler.start()
    try await observe()
    try compareStates()
    model.finishRunning()
    gate.open()
  }
}
