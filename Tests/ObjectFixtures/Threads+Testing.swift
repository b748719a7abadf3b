import Testing
import VarveTestSupport

extension Threads {
  /// Runs `body` on so many threads at once, and returns when all have ended. What it throws is an issue.
  static func run(_ count: Int, _ body: @escaping @Sendable (Int) throws -> Void) { start(count, body).join() }
}

extension Threads.Started {
  /// Returns when all have ended. What they threw is an issue.
  func join() { #expect(errorsAtEnd() == []) }
}
