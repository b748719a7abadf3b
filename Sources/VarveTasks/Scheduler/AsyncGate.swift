internal import Synchronization

/// A gate that operations enter while it is open. Closing it waits for those that are inside, and later ones are
/// refused.
///
/// A running scheduler lets operations on the database enter that its loop does not wait for: those that store the
/// progress of handlers, and those that remove schedules. A stop closes the gate, so the database can be closed then.
final class AsyncGate: Sendable {
  private struct State {
    var isOpen = false
    var count = 0
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  /// Lets operations enter.
  func open() { state.withLock { $0.isOpen = true } }

  /// Lets an operation enter, at whose end the caller must call `leave`. Returns false if the gate is closed.
  func enter() -> Bool {
    state.withLock { state in
      if state.isOpen { state.count += 1 }
      return state.isOpen
    }
  }

  /// Ends an operation that has entered.
  func leave() {
    let waiters = state.withLock { state in
      state.count -= 1
      guard state.count == 0 else { return [CheckedContinuation<Void, Never>]() }
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }

  /// Lets no more operations enter, and returns when all of them have left.
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
