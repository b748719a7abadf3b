internal import Dispatch
internal import Synchronization

/// Who builds an extension: one thread at a time, and others wait for its end.
final class BuildClaim: Sendable {
  private struct State {
    var isHeld = false
    var waiters: [DispatchSemaphore] = []
  }

  private let state = Mutex(State())

  /// How many threads wait.
  var waiterCount: Int { state.withLock { $0.waiters.count } }

  /// Begins a build. False while another thread builds.
  func take() -> Bool {
    state.withLock { state in
      defer { state.isHeld = true }
      return !state.isHeld
    }
  }

  /// Ends a build: finished, failed, or interrupted.
  func end() {
    let waiters = state.withLock { state in
      defer { state = State() }
      return state.waiters
    }
    for waiter in waiters { waiter.signal() }
  }

  /// Waits, on this thread, until a build that runs has ended. False: none runs.
  func waitForEnd() -> Bool {
    let semaphore = DispatchSemaphore(value: 0)
    let isHeld = state.withLock { state in
      if state.isHeld { state.waiters.append(semaphore) }
      return state.isHeld
    }
    if isHeld { semaphore.wait() }
    return isHeld
  }
}
