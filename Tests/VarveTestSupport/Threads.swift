import Foundation
import Synchronization

/// Threads of a test, each of which runs the same body with a number of its own.
public enum Threads {
  /// Begins to run `body` on so many threads at once.
  public static func start(_ count: Int = 1, _ body: @escaping @Sendable (Int) throws -> Void) -> Started {
    let started = Started()
    for index in 0..<count { started.add("thread \(index)") { try body(index) } }
    return started
  }

  /// Runs `body` on a thread of its own, which it may block for as long as it wants, and waits suspended.
  public static func alone<Result: Sendable>(
    _ body: @escaping @Sendable () throws -> Result
  ) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
      let thread = Thread { continuation.resume(with: Swift.Result(catching: body)) }
      thread.stackSize = 4 << 20
      thread.start()
    }
  }

  /// Threads that run. To be waited for.
  public final class Started: Sendable {
    private let group = DispatchGroup()
    private let errors = Mutex<[String]>([])

    fileprivate init() {}

    fileprivate func add(_ name: String, _ body: @escaping @Sendable () throws -> Void) {
      group.enter()
      let thread = Thread { [self] in
        defer { group.leave() }
        do { try body() } catch { errors.withLock { $0.append("\(name): \(error)") } }
      }
      thread.stackSize = 1 << 20
      thread.start()
    }

    /// Waits until all have ended, and returns what they threw.
    public func errorsAtEnd() -> [String] {
      group.wait()
      return errors.withLock { $0 }
    }
  }
}
