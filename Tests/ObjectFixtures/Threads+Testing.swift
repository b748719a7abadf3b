import Testing
import VarveTestSupport

extension Threads {
  /// Runs `body` on `count` threads concurrently, and waits until all have ended. Errors that it throws are recorded
  /// as issues.
  @available(*, noasync, message: "it blocks a thread that other tests need: use start and join")
  static func run(_ count: Int, _ body: @escaping @Sendable (Int) throws -> Void) { start(count, body).join() }
}

extension Threads.Started {
  /// Waits until all threads have ended. Errors that they threw are recorded as issues.
  @available(*, noasync, message: "it blocks a thread that other tests need: use the asynchronous form")
  func join() { #expect(errorsAtEnd() == []) }

  /// Waits until all threads have ended. Errors that they threw are recorded as issues.
  func join() async { #expect(await errorsAtEnd() == []) }
}
