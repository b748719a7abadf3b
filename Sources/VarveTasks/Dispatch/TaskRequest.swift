internal import Synchronization

/// A change of tasks that a program wants beside its transactions: made in the scheduler's own commits, at most 512 tasks in one.
final class TaskRequest: Sendable {
  enum Change: Sendable {
    case cancel, wake, revive, delete
    /// A transaction has cancelled an attempt whose end was committed before it, or beside it.
    case cancelMissed
  }

  let change: Change
  let ids: [TaskID]
  /// Nil: the scheduler's own, for which no caller waits.
  private let continuation: Mutex<CheckedContinuation<Answer, any Error>?>

  /// How many tasks it concerned, and those that a transaction was changing.
  struct Answer: Sendable {
    var count = 0
    var left: [TaskID] = []
  }

  init(_ change: Change, _ ids: [TaskID], _ continuation: CheckedContinuation<Answer, any Error>?) {
    self.change = change
    self.ids = ids
    self.continuation = Mutex(continuation)
  }

  func end(_ answer: Answer) { continuation.withLock { $0.take() }?.resume(returning: answer) }
  func fail(_ error: any Error) { continuation.withLock { $0.take() }?.resume(throwing: error) }
}
