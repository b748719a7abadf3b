import Synchronization

@testable import VarveTasks

/// A flag that can be set.
final class Flag: Sendable {
  private let value = Atomic(false)
  var isSet: Bool { value.load(ordering: .acquiring) }
  func set() { value.store(true, ordering: .releasing) }
}

/// A flag that can be set and waited for.
final class AsyncFlag: Sendable {
  private struct State {
    var isSet = false
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  func set() {
    let waiters = state.withLock { state in
      state.isSet = true
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }

  func wait() async {
    await withCheckedContinuation { continuation in
      let isSet = state.withLock { state in
        if !state.isSet { state.waiters.append(continuation) }
        return state.isSet
      }
      if isSet { continuation.resume() }
    }
  }
}

extension TaskFixture {
  /// Waits until a condition holds that other threads bring about.
  func poll(_ condition: () throws -> Bool) async {
    // The suite's time limit cancels the test.
    while (try? condition()) != true, !Task.isCancelled { await Task.yield() }
  }
}
