internal import Synchronization

/// Calls a closure at one time, the next at which something is due. It sleeps once for each time, and not at all if no
/// time is set.
final class Alarm: Sendable {
  private struct State {
    var deadline: Duration?
    var task: Task<Void, Never>?
    var number: UInt64 = 0
  }

  private let state = Mutex(State())
  private let clock: any SchedulerClock

  init(_ clock: any SchedulerClock) { self.clock = clock }

  /// Sets the time on the continuous clock at which to call `ring`, or `nil` for never. It replaces the time that was
  /// set before.
  ///
  /// `next` returns the time. Of several calls at once, the last one asks for it last, so no older time replaces a
  /// newer one.
  func set(_ next: () -> Duration?, _ ring: @escaping @Sendable () -> Void) {
    state.withLock { state in
      let deadline = next()
      if state.deadline == deadline { return }
      state.task?.cancel()
      state.deadline = deadline
      state.number += 1
      let number = state.number
      guard let deadline else { return state.task = nil }
      state.task = Task.detached { [self, clock] in
        do { try await clock.sleep(until: deadline) } catch { return }
        let isCurrent = self.state.withLock { state in
          if state.number != number { return false }
          state.deadline = nil
          return true
        }
        if isCurrent { ring() }
      }
    }
  }
}
