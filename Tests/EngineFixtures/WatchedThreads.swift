@testable import VarveEngine

/// Threads of a test, all of which have to end.
///
/// A thread that hangs is reported as a problem with its name, so that the test itself ends.
final class WatchedThreads: @unchecked Sendable {
  // Sendable: the arrays are touched only inside `monitor.withLock`.
  private let monitor = Monitor(conditionCount: 1)
  private var running: [String] = []
  private var threads: [EngineThread] = []
  private var problems: [String] = []
  private static let nanosecondsMaximum: UInt64 = 180_000_000_000

  /// Starts a thread. An error that it throws is a problem.
  func start(_ name: String, _ body: @escaping @Sendable () throws -> Void) {
    monitor.withLock { running.append(name) }
    let thread = EngineThread(name: name) { [self] in
      let failure = Result { try body() }
      monitor.withLock {
        if case .failure(let error) = failure { problems.append("\(name): \(error)") }
        running.removeAll { $0 == name }
        monitor.broadcast(0)
      }
    }
    monitor.withLock { threads.append(thread) }
  }

  /// Adds a problem that a thread found.
  func report(_ problem: String) { monitor.withLock { problems.append(problem) } }

  /// Waits until all threads have ended, or at most three minutes, and returns all problems.
  func finish() -> [String] {
    let clock = SystemClock()
    let deadline = clock.now() + Self.nanosecondsMaximum
    let (found, ended) = monitor.withLock {
      while !running.isEmpty, clock.now() < deadline { monitor.wait(0, nanoseconds: deadline - clock.now()) }
      defer { threads = [] }
      return (problems + running.map { "\($0) hangs" }, running.isEmpty ? threads : [])
    }
    for thread in ended { thread.join() }
    return found
  }
}
