import Foundation
import Synchronization

/// Threads of a test, each of which runs the same body with its own index.
public enum Threads {
  /// Starts `count` threads that run `body` concurrently.
  public static func start(_ count: Int = 1, _ body: @escaping @Sendable (Int) throws -> Void) -> Started {
    let started = Started()
    for index in 0..<count { started.add("thread \(index)") { try body(index) } }
    return started
  }

  /// Runs `body` on a new thread, which it may block for any time, and suspends the caller's task until it ends.
  public static func alone<Result: Sendable>(
    _ body: @escaping @Sendable () throws -> Result
  ) async throws -> Result {
    try await withCheckedThrowingContinuation { continuation in
      let thread = Thread { continuation.resume(with: Swift.Result(catching: body)) }
      thread.stackSize = 4 << 20
      thread.start()
    }
  }

  /// Threads that were started; `errorsAtEnd` must be called.
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

    /// Waits until all threads have ended, and returns descriptions of the errors that they threw.
    @available(*, noasync, message: "it blocks a thread that other tests need: use the asynchronous form")
    public func errorsAtEnd() -> [String] {
      group.wait()
      return errors.withLock { $0 }
    }

    /// Waits until all threads have ended, and returns descriptions of the errors that they threw.
    public func errorsAtEnd() async -> [String] {
      await withCheckedContinuation { continuation in group.notify(queue: .global()) { continuation.resume() } }
      return errors.withLock { $0 }
    }
  }
}
