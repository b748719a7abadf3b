internal import Synchronization
public import Varve
@_spi(Testing) public import VarveTasks

/// Runs a task once for each point at which the process can die while the task's handler runs: before and after the
/// handler, each checkpoint and `complete`.
///
/// At the point, everything of the attempt stops as it would after a kill. Then another scheduler runs the tasks in the
/// database until no task is left to run, and `check` examines the database.
///
/// ```swift
/// let count = try await assertSurvivesCrashes(of: SendMessage(messageKey: "m1")) {
///   try Database.inMemory { Message.self }
/// } register: { scheduler in
///   try scheduler.register(SendMessage.self) { payload, context in try await send(payload, context) }
/// } check: { database, point in
///   #expect(try database.read { tx in try tx.object(Bool.self, key: "m1", in: "sent") } == true, "killed \(point)")
/// }
/// ```
///
/// The handler's effects outside of the database up to the point have happened: fakes of the test see what a second
/// attempt repeats. Delays pass at once. Returns the number of points, which is at least two.
///
/// Throws errors that the closures throw, and `TaskAssertionFailed` with the point if the task has not ended after the
/// second scheduler has run.
@discardableResult
public func assertSurvivesCrashes<Payload: TaskPayload>(
  of payload: Payload, _ options: TaskOptions = Payload.defaults, in makeDatabase: () async throws -> Database,
  register: (TaskScheduler) throws -> Void, check: (Database, _ point: String) async throws -> Void
) async throws -> Int {
  var number = 0
  while true {
    let database = try await makeDatabase()
    let trial = CrashTrial(database, dyingAt: number)
    let point = try await trial.run(payload, options, register)
    try await check(database, point ?? "nowhere")
    try await database.close()
    guard point != nil else { return number }
    number += 1
  }
}

/// One run of the task in which the process dies at one point, and another scheduler continues.
private final class CrashTrial: Sendable {
  private struct State {
    var count = 0
    var point: String?
    var waiter: CheckedContinuation<Void, Never>?
    var isOver = false
  }

  private let state = Mutex(State())
  private let database: Database
  private let dyingAt: Int
  private let clock = ManualSchedulerClock()

  init(_ database: Database, dyingAt: Int) {
    self.database = database
    self.dyingAt = dyingAt
  }

  /// Runs the task. Returns the point at which it died, or `nil` if there are fewer points.
  func run<Payload: TaskPayload>(
    _ payload: Payload, _ options: TaskOptions, _ register: (TaskScheduler) throws -> Void
  ) async throws -> String? {
    let first = try TaskScheduler(database, clock: clock)
    try register(first)
    first.atPoints { [self] _, point in await reach(point) }
    let id = try await enqueue(payload, options)
    try await first.start()
    await wait(for: first)
    // A later attempt may reach the point, so delays pass while the task has not ended.
    while state.withLock({ $0.point }) == nil, try await isLeft(id) {
      state.withLock { $0.isOver = false }
      clock.advance(by: .seconds(3_600))
      await wait(for: first)
    }
    let point = state.withLock { $0.point }
    if point == nil {
      await first.stop()
      return nil
    }
    first.die()
    let second = try TaskScheduler(database, clock: clock)
    try register(second)
    try await second.start()
    try await finish(second, id)
    await second.stop()
    return point
  }

  private func enqueue<Payload: TaskPayload>(_ payload: Payload, _ options: TaskOptions) async throws -> TaskID {
    try await database.write { tx in try tx.enqueue(payload, options).id }
  }

  private func reach(_ point: AttemptPoint) async {
    let (dies, waiter) = state.withLock { state -> (Bool, CheckedContinuation<Void, Never>?) in
      defer { state.count += 1 }
      guard state.count == dyingAt || state.point != nil else { return (false, nil) }
      if state.point == nil { state.point = "\(point)" }
      state.isOver = true
      return (true, state.waiter.take())
    }
    waiter?.resume()
    // This attempt must not continue past the point.
    // Safety: a continuation that is never resumed is leaked, which is intended here.
    if dies { unsafe await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in } }
  }

  /// Returns when the point is reached, or the scheduler is idle.
  private func wait(for scheduler: TaskScheduler) async {
    let idle = Task { [self] in
      await scheduler.waitUntilIdle()
      let waiter = state.withLock { state in
        state.isOver = true
        return state.waiter.take()
      }
      waiter?.resume()
    }
    await withCheckedContinuation { continuation in
      let isOver = state.withLock { state in
        if !state.isOver { state.waiter = continuation }
        return state.isOver
      }
      if isOver { continuation.resume() }
    }
    idle.cancel()
  }

  /// Returns whether the task has not ended and is not parked.
  private func isLeft(_ id: TaskID) async throws -> Bool {
    guard let state = try await database.read({ tx in try tx.task(id)?.progress.state }) else { return false }
    return !state.isSettled && state != .parked
  }

  /// Advances the clock past delays until the task has ended.
  private func finish(_ scheduler: TaskScheduler, _ id: TaskID) async throws {
    for _ in 0..<1_000 {
      await scheduler.waitUntilIdle()
      guard try await isLeft(id) else { return }
      clock.advance(by: .seconds(3_600))
    }
    let point = state.withLock { $0.point }
    throw TaskAssertionFailed("task \(id) has not ended after a death \(point ?? "nowhere")")
  }
}
