import EngineTestSupport
import FutexLocks
import Varve
import VarveTesting

@_spi(Extensions) @_spi(Testing) @testable import VarveTasks

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
    for _ in 0..<random.below(4) { try await changeRunning(isCrash: isCrash) }
    if isCrash {
      try await crash()
      return true
    }
    if random.oneIn(3) {
      try await interrupt()
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
      let isCalm = dispatcher.state.withLock {
        !$0.loop.isPumping && $0.running.settlements.isEmpty && $0.loop.requests.isEmpty
      }
      return isCalm && gate.count == dispatcher.state.withLock { $0.running.busyCount }
    }
    let claimed = dispatcher.state.withLock { Array($0.running.runs.keys) }
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
    for id in gate.waiting { if let number = numbers[id] { model.noteHandler(number) } }
    trace.append("running \(found.sorted())")
  }

  /// Changes a task that runs, or lets its time pass.
  ///
  /// If the process is to die, handlers ignore that they are cancelled.
  private func changeRunning(isCrash: Bool) async throws {
    guard let chosen = model.running.randomElement(using: &random), let id = ids[chosen] else { return }
    switch random.below(5) {
    case 0, 1: try await cancelRunning(chosen, id, isCrash: isCrash)
    case 2:
      note(.changeRunning, "refuse to delete and edit \(chosen)")
      try fixture.write { tx in
        try require((try? tx.delete(.id(id))) == nil, "delete \(chosen), which runs")
        try require((try? tx.edit(id, priority: 0)) == nil, "edit \(chosen), which runs")
      }
    case 3:
      note(.changeRunning, "wake and revive \(chosen)")
      try fixture.write { tx in
        try require(try tx.retryNow(.id(id)) == 0, "wake \(chosen), which runs")
        try require(try tx.revive(.id(id)) == 0, "revive \(chosen), which runs")
      }
    default:
      if isCrash { return }
      let seconds = [1, 5, 30][random.below(3)]
      note(.advance, "advance \(seconds) while tasks run")
      fixture.clock.advance(by: .seconds(seconds))
      model.advance(by: seconds * 1_000)
      model.expire()
      try await observe()
    }
  }

  private func cancelRunning(_ chosen: Int, _ id: TaskID, isCrash: Bool) async throws {
    guard let task = model.tasks[chosen], !task.isCancelling else { return }
    let end = TaskModel.end(task.text, failures: task.failures, snoozes: task.snoozes)
    // A handler that has not begun is not called any more.
    if !isCrash, task.began == nil || end == .complete { return }
    note(.cancelRunning, "cancel \(chosen), which runs")
    let count = try fixture.write { tx in try tx.cancel(.id(id)) }
    try require(count == 1, "cancel \(chosen), which runs, changed \(count)")
    if isCrash { return model.requestCancel(chosen) }
    model.cancelRunning(chosen)
    // The handler receives the cancellation a moment after the commit, and its attempt ends after that.
    let dispatcher = fixture.scheduler.dispatcher
    await fixture.poll { dispatcher.state.withLock { $0.running[id] == nil } }
    try await observe()
  }

  /// Stops the scheduler, which interrupts the handlers, and starts another one.
  private func interrupt() async throws {
    note(.interrupt, "interrupt")
    await fixture.scheduler.stop()
    _ = model.takeLog()
    model.interrupt()
    try compareStates()
    try await startAgain(fixture.database)
  }

  /// Lets the process die while handlers run, and opens an image of its files.
  private func crash() async throws {
    note(.crash, "crash")
    let image = disk.crashImage(seed: random.next(), policy: .processKill)
    let (old, clock) = (fixture, fixture.clock)
    old.scheduler.die()
    gate.open(.died)
    try endFollower()
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
