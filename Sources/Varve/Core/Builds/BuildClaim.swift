internal import Dispatch
internal import Synchronization

/// The build of one extension: whether one runs, how the last one ended, and those that wait for its end.
final class BuildClaim: Sendable {
  private struct State {
    var isHeld = false
    /// Whether another was asked for while one ran.
    var isAskedAgain = false
    var error: (any Error)?
    var waiters: [UInt64: @Sendable () -> Void] = [:]
    var nextWaiter: UInt64 = 0

    /// Returns those that wait.
    mutating func end(_ error: (any Error)?) -> [@Sendable () -> Void] {
      isHeld = false
      isAskedAgain = false
      self.error = error
      defer { waiters = [:] }
      return waiters.values.map(\.self)
    }
  }

  private let state = Mutex(State())

  /// How many wait.
  var waiterCount: Int { state.withLock { $0.waiters.count } }
  var isRunning: Bool { state.withLock { $0.isHeld } }
  /// Why the last build did not come to its end.
  var error: (any Error)? { state.withLock { $0.error } }

  /// Begins a build. False while another one runs: that one is to look once more what there is to do.
  func take() -> Bool {
    state.withLock { state in
      state.isAskedAgain = state.isHeld
      if state.isHeld { return false }
      state.isHeld = true
      state.error = nil
      return true
    }
  }

  /// Says why there will be no build.
  func refuse(_ error: any Error) { state.withLock { $0.error = error } }

  /// Ends a build that is finished. False where another was asked for meanwhile: it still runs then.
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

  /// Ends a build: finished, failed, or interrupted.
  func end(_ error: (any Error)?) {
    for waiter in state.withLock({ $0.end(error) }) { waiter() }
  }

  /// Calls a closure once when the build that runs has ended. Nil: none runs, and it is not called.
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

  /// Waits, on this thread, until a build that runs has ended. False: none runs.
  func waitForEnd() -> Bool {
    let semaphore = DispatchSemaphore(value: 0)
    guard add({ semaphore.signal() }) != nil else { return false }
    semaphore.wait()
    return true
  }

  /// The same, suspended. Throws `CancellationError`, without an effect on the build.
  func waitForEndSuspended() async throws -> Bool {
    let (ends, ending) = AsyncStream<Void>.makeStream()
    guard let number = add({ ending.finish() }) else { return false }
    for await _ in ends {}
    // A stream also ends with the task that waits.
    _ = remove(number)
    try Task.checkCancellation()
    return true
  }
}
