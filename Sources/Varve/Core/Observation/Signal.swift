internal import Synchronization

/// Where tasks wait until there is something for them to look at.
///
/// It is set until a waiting caller has taken it, so what happens between a look and the wait after it is not
/// missed. Who wakes looks again: a wake-up means that it may be worth it.
///
/// Safe from any thread. Tasks are woken outside of the lock.
final class Signal: Sendable {
  private struct State {
    var isSet = false
    var nextNumber: UInt64 = 0
    var waiters: [UInt64: CheckedContinuation<Void, Never>] = [:]
  }

  private let state = Mutex(State())

  /// Wakes all who wait, or the next one who would.
  func set() {
    let woken = state.withLock { state in
      if state.waiters.isEmpty { state.isSet = true }
      defer { state.waiters = [:] }
      return state.waiters
    }
    for waiter in woken.values { waiter.resume() }
  }

  /// Returns when it was set since someone waited last, or when the task is cancelled.
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
        // A cancellation before this has found no one; so it is looked for here again.
        if Task.isCancelled { leave(number) }
      }
    } onCancel: {
      leave(number)
    }
  }

  private func leave(_ number: UInt64) { state.withLock { $0.waiters.removeValue(forKey: number) }?.resume() }
}
