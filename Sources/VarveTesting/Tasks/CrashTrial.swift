internal import Synchronization
public import Varve
@_spi(Testing) public import VarveTasks

/// Runs a task once for each point at which the process can die while its handler runs: before and after the handler, each checkpoint and
/// `complete`. At the point everything of the attempt stands still, as it would after a kill; then another scheduler runs what
/// is in the database until nothing is left, and `check` looks at it.
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
/// What the handler does outside of the database until the point has happened: fakes of the test see what a second attempt
/// repeats. Delays pass at once. Returns the number of points, of which there are at least two.
///
/// Throws what the closures throw, with the point in `TaskAssertionFailed` where the task has not ended after the second
/// scheduler.
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

/// One death, and what follows.
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

  /// Returns the point; nil: there were not so many.
  func run<Payload: TaskPayload>(
    _ payload: Payload, _ options: TaskOptions, _ register: (TaskScheduler) throws -> Void
  ) async throws -> String? {
    let first = try TaskScheduler(database, clock: clock)
    try register(first)
    first.atPoints { [self] _, point in await reach(point) }
    let id = try await enqueue(payload, options)
    try await first.start()
    await wait(for: first)
    // A later attempt may reach the point.
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

  private func reach(_ point: TaskPoint) async {
    let (dies, waiter) = state.withLock { state -> (Bool, CheckedContinuation<Void, Never>?) in
      defer { state.count += 1 }
      guard state.count == dyingAt || state.point != nil else { return (false, nil) }
      if state.point == nil { state.point = "\(point)" }
      state.isOver = true
      return (true, state.waiter.take())
    }
    waiter?.resume()
    // Nothing of this attempt continues.
    // Safety: a continuation that is never resumed is left, which is what is wanted.
    if dies { unsafe await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in } }
  }

  /// Returns when the point is reached, or nothing is left to do.
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

  /// Whether the task waits for a time, or runs.
  private func isLeft(_ id: TaskID) async throws -> Bool {
    guard let state = try await database.read({ tx in try tx.task(id)?.progress.state }) else { return false }
    return !state.isSettled && state != .parked
  }

  /// Lets delays pass until the task has ended.
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
