public import Foundation
internal import Synchronization
@_spi(Testing) public import VarveTasks

/// A scheduler clock that a test advances. Time does not pass between its calls.
///
/// ```swift
/// let clock = ManualSchedulerClock()
/// let scheduler = try TaskScheduler(database, clock: clock)
/// try await scheduler.start()
/// await scheduler.runUntilIdle()
/// await scheduler.advance(clock, by: .seconds(60))   // what is due in the next minute has run
/// ```
///
/// The clock is advanced at once, however long the duration is. What follows from a task that was due within it, such
/// as a retry after 10 seconds, is measured from its end. A test of several attempts, or of several slots of a
/// schedule, advances the clock in small steps.
public final class ManualSchedulerClock: SchedulerClock {
  private struct Sleeper {
    let id: UInt64
    let deadline: Duration
    let continuation: CheckedContinuation<Void, any Error>
    /// The handler that sleeps, or `nil` for other code.
    let handler: SleepingHandler?
  }

  private struct State {
    var wall: Date
    var continuous = Duration.zero
    var suspending = Duration.zero
    var sleepers: [Sleeper] = []
    var sleepCount = 0
    var cancelled: Set<UInt64> = []
    var nextID: UInt64 = 0
    /// The closures to be called when a handler begins to sleep.
    var listeners: [UInt64: @Sendable () -> Void] = [:]
  }

  private let state: Mutex<State>

  /// Creates a clock that shows a time of day, by default the beginning of 2026.
  public init(wall: Date = Date(timeIntervalSince1970: 1_767_225_600)) { state = Mutex(State(wall: wall)) }

  /// The time of day.
  public var wallNow: Date { state.withLock { $0.wall } }
  /// The sum of all time that has passed, including suspensions.
  public var continuousNow: Duration { state.withLock { $0.continuous } }
  /// The sum of all time that has passed, without the suspensions.
  public var suspendingNow: Duration { state.withLock { $0.suspending } }

  /// The number of calls of `sleep`. An idle scheduler never sleeps.
  public var sleepCount: Int { state.withLock { $0.sleepCount } }
  /// The times until which callers of `sleep` wait now, in ascending order.
  var deadlines: [Duration] { state.withLock { $0.sleepers.map(\.deadline).sorted() } }

  /// Advances the clock by a duration at once, at most to the end of its time, about 292 billion years after its
  /// beginning.
  public func advance(by duration: Duration) { pass(duration, isAwake: true) }

  /// Advances the clock as if the machine had slept for a duration.
  public func suspend(for duration: Duration) { pass(duration, isAwake: false) }

  /// Sets the time of day.
  public func setWall(_ date: Date) { state.withLock { $0.wall = date } }

  /// The time at which the clock stops: the last second that is a number of 64 bits.
  private static let end = Duration.seconds(Int64.max)

  private func pass(_ duration: Duration, isAwake: Bool) {
    let woken = state.withLock { state in
      let passed = min(duration, Self.end - state.continuous)
      state.wall += TimeInterval(passed.components.seconds) + Double(passed.components.attoseconds) * 1e-18
      state.continuous += passed
      if isAwake { state.suspending += passed }
      let now = state.continuous
      defer { state.sleepers.removeAll { $0.deadline <= now } }
      let woken = state.sleepers.filter { $0.deadline <= now }
      for sleeper in woken { sleeper.handler?.end() }
      return woken
    }
    for sleeper in woken { sleeper.continuation.resume() }
  }

  /// Returns when the clock has reached a time, or throws `CancellationError`.
  public func sleep(until deadline: Duration) async throws {
    let id = state.withLock { state in
      state.sleepCount += 1
      state.nextID += 1
      return state.nextID
    }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let result: Result<Void, any Error>? = state.withLock { state in
          if state.cancelled.remove(id) != nil { return .failure(CancellationError()) }
          if deadline <= state.continuous { return .success(()) }
          let handler = SleepingHandler.current
          handler?.begin()
          state.sleepers.append(Sleeper(id: id, deadline: deadline, continuation: continuation, handler: handler))
          return nil
        }
        if let result { return continuation.resume(with: result) }
        for listener in state.withLock({ Array($0.listeners.values) }) { listener() }
      }
    } onCancel: {
      let sleeper = state.withLock { state in
        guard let index = state.sleepers.firstIndex(where: { $0.id == id }) else {
          state.cancelled.insert(id)
          return Sleeper?.none
        }
        let sleeper = state.sleepers.remove(at: index)
        sleeper.handler?.end()
        return sleeper
      }
      sleeper?.continuation.resume(throwing: CancellationError())
    }
  }
}

extension ManualSchedulerClock {
  /// Calls a closure with each sleep of a handler that begins while `body` runs.
  fileprivate func whileListening(_ listener: @escaping @Sendable () -> Void, _ body: () async -> Void) async {
    let id = state.withLock { state in
      state.nextID += 1
      state.listeners[state.nextID] = listener
      return state.nextID
    }
    await body()
    state.withLock { $0.listeners[id] = nil }
  }
}

extension TaskScheduler {
  /// Returns when no handler runs, and no task is due at the current time.
  public func runUntilIdle() async { await waitUntilIdle() }

  /// Advances a clock at once, and returns when the tasks that are due have run, or their handlers sleep by the clock
  /// (`SchedulerClock.sleep`), which another call wakes.
  ///
  /// A delay that begins when such a task has run, such as that of a retry, begins at the end of the duration. For what
  /// follows within it, call this several times with shorter durations.
  public func advance(_ clock: ManualSchedulerClock, by duration: Duration) async {
    clock.advance(by: duration)
    await clock.whileListening({ [self] in noteSleep() }) { await waitUntilIdleOrAsleep() }
  }
}
