internal import Synchronization

/// Calls back at one time: the next at which something is due. Sleeps once for each, and not at all where nothing is.
final class TaskAlarm: Sendable {
  private struct State {
    var deadline: Duration?
    var task: Task<Void, Never>?
    var number: UInt64 = 0
  }

  private let state = Mutex(State())
  private let clock: any SchedulerClock

  init(_ clock: any SchedulerClock) { self.clock = clock }

  /// Rings at a time on the continuous clock, and at no other; nil: never.
  func set(_ deadline: Duration?, _ ring: @escaping @Sendable () -> Void) {
    state.withLock { state in
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
