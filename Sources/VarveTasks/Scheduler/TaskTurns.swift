internal import Synchronization

/// Lets callers do something one after the other, in the order in which they asked: start or stop a scheduler, store
/// and remove schedules, or commit changes of tasks.
///
/// A stop in the middle of a start would detach the scheduler from the dispatcher while the start still recovers tasks.
/// A second start could then claim tasks, and the recovery of the first one would take these claims for claims of a
/// process that died.
final class TaskTurns: Sendable {
  private struct State {
    var isTaken = false
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  /// Runs `body` when all callers that asked before have returned. Cancelling the caller's Swift task does not end the
  /// wait.
  func run<Result: Sendable>(_ body: @Sendable () async throws -> Result) async rethrows -> Result {
    await take()
    defer { give() }
    return try await body()
  }

  /// Returns when all callers that asked before have given their turns. The caller must call `give`.
  func take() async {
    if takeIfFree() { return }
    await withCheckedContinuation { continuation in
      let isFree = state.withLock { state in
        if state.isTaken {
          state.waiters.append(continuation)
          return false
        }
        state.isTaken = true
        return true
      }
      if isFree { continuation.resume() }
    }
  }

  private func takeIfFree() -> Bool {
    state.withLock { state in
      if state.isTaken { return false }
      state.isTaken = true
      return true
    }
  }

  /// Ends a turn, and begins that of the next caller.
  func give() {
    let next = state.withLock { state in
      if state.waiters.isEmpty {
        state.isTaken = false
        return CheckedContinuation<Void, Never>?.none
      }
      return state.waiters.removeFirst()
    }
    next?.resume()
  }
}
