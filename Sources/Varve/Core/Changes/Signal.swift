internal import Synchronization

/// A signal on which tasks wait until there may be something to process.
///
/// It stays set until a waiting caller has consumed it, so an event between a check and the wait that follows is not
/// missed. A task that is woken checks again: a wake-up only means that there may be something.
///
/// It is safe to use from any thread. Tasks are resumed outside of the lock.
final class Signal: Sendable {
  private struct State {
    var isSet = false
    var nextNumber: UInt64 = 0
    var waiters: [UInt64: CheckedContinuation<Void, Never>] = [:]
  }

  private let state = Mutex(State())

  /// Wakes all waiting tasks, or lets the next call of `wait()` return at once if there are none.
  func set() {
    let woken = state.withLock { state in
      if state.waiters.isEmpty { state.isSet = true }
      defer { state.waiters = [:] }
      return state.waiters
    }
    for waiter in woken.values { waiter.resume() }
  }

  /// Waits until the signal was set since the last wait, or until the task is cancelled.
  func wait() async {
    let number = state.withLock { state in
      state.nextNumber += 1
      return state.nextNumber
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isSet = state.withLock { state in
          defer { state.isSet = false }
          if !state.isSet { state.waiters[number] = continuation }
          return state.isSet
        }
        if isSet { return continuation.resume() }
        // A cancellation before this point has found no waiter, so it is checked for here again.
        if Task.isCancelled { leave(number) }
      }
    } onCancel: {
      leave(number)
    }
  }

  private func leave(_ number: UInt64) { state.withLock { $0.waiters.removeValue(forKey: number) }?.resume() }
}
