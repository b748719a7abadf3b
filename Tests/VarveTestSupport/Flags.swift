internal import Synchronization

/// A flag that can be set. Safe from any thread.
public final class Flag: Sendable {
  private let value = Atomic(false)

  /// Creates a flag that is not set.
  public init() {}

  /// Whether the flag was set.
  public var isSet: Bool { value.load(ordering: .acquiring) }
  /// Sets the flag.
  public func set() { value.store(true, ordering: .releasing) }
}

/// A flag that can be set and waited for, also by a Swift task that is cancelled. Safe from any thread.
public final class AsyncFlag: Sendable {
  private struct State {
    var isSet = false
    var waiters: [CheckedContinuation<Void, Never>] = []
  }

  private let state = Mutex(State())

  /// Creates a flag that is not set.
  public init() {}

  /// Sets the flag, and resumes those that wait for it.
  public func set() {
    let waiters = state.withLock { state in
      state.isSet = true
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume() }
  }

  /// Waits until the flag is set.
  public func wait() async {
    await withCheckedContinuation { continuation in
      let isSet = state.withLock { state in
        if !state.isSet { state.waiters.append(continuation) }
        return state.isSet
      }
      if isSet { continuation.resume() }
    }
  }
}

/// Waits until a condition holds that other threads bring about.
public func waitUntil(_ condition: () throws -> Bool) async {
  while (try? condition()) != true { await Task.yield() }
}

/// Waits until the caller's Swift task is cancelled. `body` is called at that time.
public func waitForCancellation(_ body: @escaping @Sendable () -> Void = {}) async {
  let isCancelled = AsyncFlag()
  await withTaskCancellationHandler {
    await isCancelled.wait()
  } onCancel: {
    body()
    isCancelled.set()
  }
}
