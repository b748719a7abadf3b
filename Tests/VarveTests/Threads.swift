import Foundation
import Synchronization
import Testing

/// Threads of a test, each of which runs the same body with a number of its own.
enum Threads {
  /// Runs `body` on so many threads at once, and returns when all have ended. What it throws is an issue.
  static func run(_ count: Int, _ body: @escaping @Sendable (Int) throws -> Void) { start(count, body).join() }

  /// Begins to run `body` on so many threads at once.
  static func start(_ count: Int = 1, _ body: @escaping @Sendable (Int) throws -> Void) -> Started {
    let started = Started()
    for index in 0..<count { started.add("thread \(index)") { try body(index) } }
    return started
  }

  /// Threads that run. To be joined.
  final class Started: Sendable {
    private let group = DispatchGroup()
    private let errors = Mutex<[String]>([])

    fileprivate func add(_ name: String, _ body: @escaping @Sendable () throws -> Void) {
      group.enter()
      let thread = Thread { [self] in
        defer { group.leave() }
        do { try body() } catch { errors.withLock { $0.append("\(name): \(error)") } }
      }
      thread.stackSize = 1 << 20
      thread.start()
    }

    /// Returns when all have ended. What they threw is an issue.
    func join() {
      group.wait()
      #expect(errors.withLock { $0 } == [])
    }
  }
}
