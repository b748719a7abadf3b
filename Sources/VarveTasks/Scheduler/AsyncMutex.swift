internal import Synchronization

/// A lock that asynchronous callers acquire in the order in which they asked for it, and may hold while they wait.
///
/// A scheduler has one for each of three things: its starts and stops, the stores and removals of schedules, and the
/// commits that change tasks. A stop in the middle of a start, for example, would detach the scheduler from the
/// dispatcher while the start still recovers tasks. A second start could then claim tasks, and the recovery of the
/// first one would take these claims for claims of a process that died.
final class AsyncMutex: Sendable {
  private struct State {
    var isLocked = false
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  /// Runs `body` with the lock held. Cancelling the caller's Swift task does not end the wait for the lock.
  func withLock<Result: Sendable>(_ body: @Sendable () async throws -> Result) async rethrows -> Result {
    await lock()
    defer { unlock() }
    return try await body()
  }

  /// Acquires the lock, when all callers that asked before have released it. The caller must call `unlock`.
  func lock() async {
    if lockIfFree() { return }
    await withCheckedContinuation { continuation in
      let isFree = state.withLock { state in
        if state.isLocked {
          state.waiters.append(continuation)
          return false
        }
        state.isLocked = true
        return true
      }
      if isFree { continuation.resume() }
    }
  }

  private func lockIfFree() -> Bool {
    state.withLock { state in
      if state.isLocked { return false }
      state.isLocked = true
      return true
    }
  }

  /// Releases the lock, which the caller that has waited longest acquires.
  func unlock() {
    let next = state.withLock { state in
      if state.waiters.isEmpty {
        state.isLocked = false
        return CheckedContinuation<Void, Never>?.none
      }
      return state.waiters.removeFirst()
    }
    next?.resume()
  }
}
