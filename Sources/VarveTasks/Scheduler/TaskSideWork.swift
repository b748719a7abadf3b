internal import Synchronization

/// The work on the database that a running scheduler does beside its loop: storing the progress of handlers, and
/// removing schedules.
///
/// A stop waits for it, and none begins after that, so the database can be closed then.
final class TaskSideWork: Sendable {
  private struct State {
    var isOpen = false
    var count = 0
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  /// Lets work begin.
  func open() { state.withLock { $0.isOpen = true } }

  /// Counts a piece of work that begins, and at whose end the caller must call `end`. Returns false if none may begin.
  func begin() -> Bool {
    state.withLock { state in
      if state.isOpen { state.count += 1 }
      return state.isOpen
    }
  }

  func end() {
    let waiters = state.withLock { state in
      state.count -= 1
      guard state.count == 0 else { return [CheckedContinuation<Void, Never>]() }
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }

  /// Lets no more work begin, and returns when all work has ended.
  func close() async {
    await withCheckedContinuation { continuation in
      let isIdle = state.withLock { state in
        state.isOpen = false
        if state.count > 0 { state.waiters.append(continuation) }
        return state.count == 0
      }
      if isIdle { continuation.resume() }
    }
  }
}
