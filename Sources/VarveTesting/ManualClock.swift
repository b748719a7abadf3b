internal import Synchronization
public import Varve

/// A clock that advances only on request.
///
/// ```swift
/// let clock = ManualClock()
/// var options = DatabaseOptions()
/// options.clock = clock.timeOfDay()
/// clock.advance(by: .seconds(3600))
/// ```
///
/// A task that sleeps by this clock (`try await clock.sleep(for: .seconds(5))`) is woken by the `advance` that brings
/// the clock to or past the end of the sleep; several are woken in the order of these ends. A test that has started a
/// task which will sleep awaits `sleepers(_:)` before it advances the clock; otherwise the task may begin to sleep
/// after that.
///
/// Safe from any thread.
public final class ManualClock: Clock {
  /// A point in time of a manual clock, as the offset from its start. Points of different clocks are unrelated.
  public struct Instant: InstantProtocol {
    /// The time since the start of the clock.
    public let offset: Duration

    /// Creates the point in time at an offset from the clock's start.
    public init(offset: Duration = .zero) { self.offset = offset }

    /// Returns the point in time that is `duration` later.
    public func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
    /// Returns the duration from this point in time to `other`.
    public func duration(to other: Instant) -> Duration { other.offset - offset }
    /// Returns whether the left point in time is earlier.
    public static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
  }

  private struct Sleeper {
    let id: UInt64
    let deadline: Instant
    let continuation: CheckedContinuation<Void, any Error>
  }

  /// A caller that waits for a number of sleepers.
  private struct Watcher {
    let id: UInt64
    let count: Int
    let continuation: CheckedContinuation<Void, any Error>
  }

  private struct State {
    var now = Instant()
    var nextID: UInt64 = 0
    var sleepers: [Sleeper] = []
    var watchers: [Watcher] = []

    mutating func takeID() -> UInt64 {
      nextID += 1
      return nextID
    }

    mutating func takeWatchers() -> [Watcher] {
      let count = sleepers.count
      defer { watchers.removeAll { $0.count <= count } }
      return watchers.filter { $0.count <= count }
    }
  }

  private let state = Mutex(State())

  /// Creates a clock at offset zero.
  public init() {}

  /// The current point in time of the clock.
  public var now: Instant { state.withLock { $0.now } }

  /// The minimum resolution, which is zero because the clock represents any duration.
  public var minimumResolution: Duration { .zero }

  // MARK: - Advancing

  /// Advances the clock by a duration, and wakes the tasks whose sleep has ended.
  ///
  /// The duration must not be negative, because this clock does not go back.
  public func advance(by duration: Duration) {
    precondition(duration >= .zero, "a manual clock goes forward only; the duration is \(duration)")
    move { $0.advanced(by: duration) }
  }

  /// Advances the clock to a point in time. Has no effect if that has passed.
  public func advance(to time: Instant) { move { max($0, time) } }

  private func move(_ next: (Instant) -> Instant) {
    let woken = state.withLock { state in
      state.now = next(state.now)
      let now = state.now
      let woken = state.sleepers.filter { $0.deadline <= now }
      state.sleepers.removeAll { $0.deadline <= now }
      return woken.sorted { ($0.deadline, $0.id) < ($1.deadline, $1.id) }
    }
    for sleeper in woken { sleeper.continuation.resume() }
  }

  // MARK: - Sleeping

  /// Waits until the clock has reached `deadline`, and returns at once if it has. The tolerance is ignored.
  ///
  /// Throws `CancellationError` if the task is cancelled before that.
  public func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
    let id = state.withLock { $0.takeID() }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { begin(Sleeper(id: id, deadline: deadline, continuation: $0)) }
    } onCancel: {
      take(id)?.resume(throwing: CancellationError())
    }
  }

  private func begin(_ sleeper: Sleeper) {
    let (result, watchers): (Result<Void, any Error>?, [Watcher]) = state.withLock { state in
      // If the task was cancelled before this point, no handler will look for the sleeper any more. If it is cancelled
      // later, the handler looks for it after this lock is released.
      if Task.isCancelled { return (.failure(CancellationError()), []) }
      if sleeper.deadline <= state.now { return (.success(()), []) }
      state.sleepers.append(sleeper)
      return (nil, state.takeWatchers())
    }
    if let result { sleeper.continuation.resume(with: result) }
    for watcher in watchers { watcher.continuation.resume() }
  }

  private func take(_ id: UInt64) -> CheckedContinuation<Void, any Error>? {
    state.withLock { state in
      if let index = state.sleepers.firstIndex(where: { $0.id == id }) {
        return state.sleepers.remove(at: index).continuation
      }
      if let index = state.watchers.firstIndex(where: { $0.id == id }) {
        return state.watchers.remove(at: index).continuation
      }
      return nil
    }
  }

  /// Waits until at least `count` tasks sleep by this clock. Throws `CancellationError` if the task is cancelled
  /// before that.
  public func sleepers(_ count: Int = 1) async throws {
    let id = state.withLock { $0.takeID() }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { watch(Watcher(id: id, count: count, continuation: $0)) }
    } onCancel: {
      take(id)?.resume(throwing: CancellationError())
    }
  }

  private func watch(_ watcher: Watcher) {
    let result: Result<Void, any Error>? = state.withLock { state in
      if Task.isCancelled { return .failure(CancellationError()) }
      if state.sleepers.count >= watcher.count { return .success(()) }
      state.watchers.append(watcher)
      return nil
    }
    if let result { watcher.continuation.resume(with: result) }
  }

  // MARK: - For databases

  /// Returns a time of day that advances with this clock, for ``DatabaseOptions/clock``.
  ///
  /// At the clock's beginning it is `start` seconds since 1970, by default on the 14th of November 2023.
  public func timeOfDay(from start: Int64 = 1_700_000_000) -> WallClock {
    WallClock { [self] in start + now.offset.components.seconds }
  }
}
