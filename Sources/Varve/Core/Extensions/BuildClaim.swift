internal import Dispatch
internal import Synchronization

/// The build of one extension: whether it runs, how the last one ended, and the callers that wait for its end.
final class BuildClaim: Sendable {
  private struct State {
    var isHeld = false
    /// Whether another build was requested while one runs.
    var isAskedAgain = false
    var error: (any Error)?
    var waiters: [UInt64: @Sendable () -> Void] = [:]
    var nextWaiter: UInt64 = 0

    /// Ends the build, and returns the closures of those that wait.
    mutating func end(_ error: (any Error)?) -> [@Sendable () -> Void] {
      isHeld = false
      isAskedAgain = false
      self.error = error
      defer { waiters = [:] }
      return waiters.values.map(\.self)
    }
  }

  private let state = Mutex(State())

  /// The number of callers that wait.
  var waiterCount: Int { state.withLock { $0.waiters.count } }
  var isRunning: Bool { state.withLock { $0.isHeld } }
  /// The error that ended the last build, or `nil` if it was finished.
  var error: (any Error)? { state.withLock { $0.error } }

  /// Begins a build. Returns false while another one runs, which will then check again what there is to do.
  func take() -> Bool {
    state.withLock { state in
      state.isAskedAgain = state.isHeld
      if state.isHeld { return false }
      state.isHeld = true
      state.error = nil
      return true
    }
  }

  /// Sets the reason why there will be no build.
  func refuse(_ error: any Error) { state.withLock { $0.error = error } }

  /// Ends a finished build. Returns false if another build was requested meanwhile; the build then continues to run.
  func endUnlessAskedAgain() -> Bool {
    let waiters = state.withLock { state -> [@Sendable () -> Void]? in
      if state.isAskedAgain {
        state.isAskedAgain = false
        return nil
      }
      return state.end(nil)
    }
    for waiter in waiters ?? [] { waiter() }
    return waiters != nil
  }

  /// Ends a build that is finished, has failed or was interrupted.
  func end(_ error: (any Error)?) {
    for waiter in state.withLock({ $0.end(error) }) { waiter() }
  }

  /// Adds a closure that is called once when the running build has ended. Returns `nil` if none runs; the closure is
  /// not called then.
  private func add(_ waiter: @escaping @Sendable () -> Void) -> UInt64? {
    state.withLock { state in
      guard state.isHeld else { return nil }
      state.nextWaiter += 1
      state.waiters[state.nextWaiter] = waiter
      return state.nextWaiter
    }
  }

  private func remove(_ number: UInt64) -> (@Sendable () -> Void)? {
    state.withLock { $0.waiters.removeValue(forKey: number) }
  }

  /// Waits on this thread until the running build has ended. Returns false if none runs.
  func waitForEnd() -> Bool {
    let semaphore = DispatchSemaphore(value: 0)
    guard add({ semaphore.signal() }) != nil else { return false }
    semaphore.wait()
    return true
  }

  /// Waits like `waitForEnd()`, but suspends the caller's task. Throws `CancellationError`, without an effect on the
  /// build.
  func waitForEndSuspended() async throws -> Bool {
    let (ends, ending) = AsyncStream<Void>.makeStream()
    guard let number = add({ ending.finish() }) else { return false }
    for await _ in ends {}
    // A stream also ends when the waiting task is cancelled.
    _ = remove(number)
    try Task.checkCancellation()
    return true
  }
}
