internal import Dispatch
internal import Synchronization

/// The number of running builds of a database's extensions, and of workers outside transactions, so that the database
/// can be closed.
final class BuildList: Sendable {
  private struct State {
    var count = 0
    var isClosed = false
    var waiters: [DispatchSemaphore] = []
    /// The number of workers that run outside the caller's transactions and begin transactions of their own.
    var workerCount = 0
    /// The number of calls that close the database and wait for the workers.
    var pauses = 0
    var pausing: [DispatchSemaphore] = []
    /// The closures to call when no such call waits any more.
    var resumptions: [@Sendable () -> Void] = []
  }

  private let state = Mutex(State())

  /// Registers a build. Returns false if the database is being closed.
  func begin() -> Bool {
    state.withLock { state in
      if !state.isClosed { state.count += 1 }
      return !state.isClosed
    }
  }

  func end() {
    let waiters = state.withLock { state in
      state.count -= 1
      guard state.count == 0 else { return [DispatchSemaphore]() }
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.signal() }
  }

  // MARK: - Workers

  /// Whether long work should end.
  var isPausing: Bool { state.withLock { $0.pauses > 0 || $0.isClosed } }

  /// Registers a worker. Returns false if the database is being closed.
  func beginWork() -> Bool {
    state.withLock { state in
      if state.isClosed || state.pauses > 0 { return false }
      state.workerCount += 1
      return true
    }
  }

  func endWork() {
    let waiters = state.withLock { state in
      state.workerCount -= 1
      guard state.workerCount == 0 else { return [DispatchSemaphore]() }
      defer { state.pausing = [] }
      return state.pausing
    }
    for waiter in waiters { waiter.signal() }
  }

  /// Waits until all workers have ended, and runs `body` while none can begin.
  func pausingWork<Result>(_ body: () throws -> Result) rethrows -> Result {
    let idle = DispatchSemaphore(value: 0)
    state.withLock { state in
      state.pauses += 1
      if state.workerCount == 0 { idle.signal() } else { state.pausing.append(idle) }
    }
    defer { endPause() }
    idle.wait()
    return try body()
  }

  private func endPause() {
    let resumptions = state.withLock { state -> [@Sendable () -> Void] in
      state.pauses -= 1
      guard state.pauses == 0 else { return [] }
      defer { state.resumptions = [] }
      return state.resumptions
    }
    for resume in resumptions { resume() }
  }

  /// Calls `body` when no call of `pausingWork` waits any more: at once if none does.
  func whenResumed(_ body: @escaping @Sendable () -> Void) {
    let isPausing = state.withLock { state in
      if state.pauses > 0 { state.resumptions.append(body) }
      return state.pauses > 0
    }
    if !isPausing { body() }
  }

  /// Prevents new builds, and returns when the running ones have ended, each after its current chunk.
  func close() {
    let idle = DispatchSemaphore(value: 0)
    state.withLock { state in
      state.isClosed = true
      if state.count == 0 { idle.signal() } else { state.waiters.append(idle) }
    }
    idle.wait()
  }
}

/// The database whose build runs the current code. A closure of the program that a build calls would wait for itself if
/// it waited for a build.
enum BuildFrame {
  @TaskLocal static var database: ObjectIdentifier?
}
