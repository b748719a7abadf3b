internal import Dispatch
internal import Synchronization

/// How many extensions of a database are being built, and how many work beside transactions, so that it can be closed.
final class BuildList: Sendable {
  private struct State {
    var count = 0
    var isClosed = false
    var waiters: [DispatchSemaphore] = []
    /// Those that work beside transactions, and have some of their own.
    var workerCount = 0
    /// How many calls that close the database wait for them.
    var pauses = 0
    var pausing: [DispatchSemaphore] = []
  }

  private let state = Mutex(State())

  /// A build begins. False where the database is being closed.
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

  // MARK: - Work beside transactions

  /// Whether work that continues should end.
  var isPausing: Bool { state.withLock { $0.pauses > 0 || $0.isClosed } }

  /// Work begins. False where the database is being closed.
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

  /// Runs `body` while nothing works beside transactions: what does has ended before.
  func pausingWork<Result>(_ body: () throws -> Result) rethrows -> Result {
    let idle = DispatchSemaphore(value: 0)
    state.withLock { state in
      state.pauses += 1
      if state.workerCount == 0 { idle.signal() } else { state.pausing.append(idle) }
    }
    defer { state.withLock { $0.pauses -= 1 } }
    idle.wait()
    return try body()
  }

  /// Lets none begin any more, and returns when those that run have ended: after the chunk that each is at.
  func close() {
    let idle = DispatchSemaphore(value: 0)
    state.withLock { state in
      state.isClosed = true
      if state.count == 0 { idle.signal() } else { state.waiters.append(idle) }
    }
    idle.wait()
  }
}

/// The database whose build calls a closure of the program's: it would wait for itself.
enum BuildFrame {
  @TaskLocal static var database: ObjectIdentifier?
}

extension DatabaseCore {
  /// Throws where a build of this database calls.
  func requireNoBuild(_ what: @autoclosure () -> String) throws {
    guard BuildFrame.database == ObjectIdentifier(self) else { return }
    throw DatabaseError(.invalidArgument, "\(what()) by a closure that a build calls, and that the build waits for")
  }
}
