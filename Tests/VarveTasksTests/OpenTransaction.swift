import Foundation
import Varve
import VarveTestSupport

/// A transaction that stays open on a thread of its own until it is to end.
final class OpenTransaction: Sendable {
  private let mayEnd: DispatchSemaphore
  private let end: Task<Void, any Error>

  /// Begins a transaction, which is rolled back at its end if `isUndone`. Returns when `body` has run.
  init(
    _ fixture: TaskFixture, isConcurrent: Bool = false, isUndone: Bool = false,
    _ body: @escaping @Sendable (WriteTransaction) throws -> Void
  ) async {
    let (begun, mayEnd) = (AsyncFlag(), DispatchSemaphore(value: 0))
    self.mayEnd = mayEnd
    let run: @Sendable (WriteTransaction) throws -> Void = { tx in
      try body(tx)
      begun.set()
      mayEnd.wait()
      // The closure of a concurrent transaction may run again, and then does not wait.
      mayEnd.signal()
      if isUndone { throw Undo() }
    }
    let database = fixture.database
    end = Task {
      defer { begun.set() }
      try await Threads.alone {
        try isConcurrent ? database.writeConcurrently(run) : database.write(run)
      }
    }
    await begun.wait()
  }

  // A test that fails leaves no thread that waits.
  deinit { mayEnd.signal() }

  /// Ends the transaction by its commit or rollback.
  func finish() async throws {
    mayEnd.signal()
    do { try await end.value } catch is Undo {}
  }
}
