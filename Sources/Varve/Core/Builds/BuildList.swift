internal import Dispatch
internal import Synchronization

/// How many extensions of a database are being built, so that it can be closed.
final class BuildList: Sendable {
  private struct State {
    var count = 0
    var isClosed = false
    var waiters: [DispatchSemaphore] = []
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
