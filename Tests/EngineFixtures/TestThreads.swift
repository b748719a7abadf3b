import Synchronization

@testable import VarveEngine

/// Threads of a test, and the problems that they find.
final class TestThreads: Sendable {
  private let threads = Mutex<[EngineThread]>([])
  private let found = Mutex<[String]>([])

  /// Starts a thread. An error that it throws is a problem.
  func start(_ name: String, _ body: @escaping @Sendable () throws -> Void) {
    let thread = EngineThread(name: name) { [self] in
      do { try body() } catch { report("\(name): \(error)") }
    }
    threads.withLock { $0.append(thread) }
  }

  /// Adds a problem that a thread found.
  func report(_ problem: String) { found.withLock { $0.append(problem) } }

  /// The problems so far.
  var problems: [String] { found.withLock { $0 } }

  /// Waits until all threads have ended, and returns all problems.
  @available(*, noasync, message: "it blocks a thread that other tests need")
  func finish() -> [String] {
    let ended = threads.withLock { threads in
      defer { threads = [] }
      return threads
    }
    for thread in ended { thread.join() }
    return problems
  }
}
