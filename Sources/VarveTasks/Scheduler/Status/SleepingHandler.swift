internal import FutexLocks
internal import Synchronization
internal import Varve

/// A handler that sleeps by a clock which a test advances.
///
/// It counts as asleep from `begin` to `end`, also if only one of several Swift tasks of the handler sleeps.
@_spi(Testing)
public struct SleepingHandler: Sendable {
  private let run: TaskRun

  /// The handler that runs the current code, or `nil` if none does.
  public static var current: SleepingHandler? {
    (DatabaseWorker.call as? TaskRun).map { SleepingHandler(run: $0) }
  }

  /// Notes that the handler begins to sleep.
  public func begin() { run.state.withLock { $0.sleepCount += 1 } }

  /// Notes that it is woken.
  public func end() { run.state.withLock { $0.sleepCount -= 1 } }
}

extension TaskScheduler {
  /// Returns when no work is left until a later time, as `waitUntilIdle()` does, or when only handlers are left that
  /// sleep by a clock which a test advances.
  @_spi(Testing)
  public func waitUntilIdleOrAsleep() async { await waitUntilIdle(leavingSleepers: true) }

  /// Resumes callers that wait, because a handler has begun to sleep.
  @_spi(Testing)
  public func noteSleep() { noteIdle() }
}

extension TaskDispatcher {
  /// Whether no work is left besides handlers that sleep by a clock which a test advances.
  var areAllAsleep: Bool {
    state.withLock { state in
      let running = state.running.runs.values.count { !$0.isAsleep }
      let left = state.running.abandonable.values.count { !$0.isAsleep }
      return running == 0 && left == 0 && !state.loop.isPumping && state.running.settlements.isEmpty
        && state.loop.requests.isEmpty && state.running.ahead.strays.isEmpty
    }
  }
}

extension TaskRun {
  fileprivate var isAsleep: Bool { state.withLock { $0.sleepCount > 0 } }
}
