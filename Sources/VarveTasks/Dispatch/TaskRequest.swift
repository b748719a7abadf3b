internal import Synchronization

/// A change of tasks that a program wants beside its transactions: made in the scheduler's own commits, at most 512 tasks in one.
final class TaskRequest: Sendable {
  enum Change: Sendable {
    case cancel, wake, revive, delete
    /// A transaction has cancelled an attempt whose end was committed before it, or beside it.
    case cancelMissed
  }

  /// A condition on a task that may have become false since the task was selected.
  enum Condition: Sendable {
    case states(Set<TaskState>)
    case signal(String)

    /// Returns whether a task fulfils the condition.
    func holds(_ record: TaskRecord, _ state: TaskState) -> Bool {
      switch self {
      case .states(let states): states.contains(state)
      case .signal(let text): record.signals.contains(text)
      }
    }
  }

  let change: Change
  let ids: [TaskID]
  /// The condition under which a task is changed, or nil if there is none.
  let condition: Condition?
  /// Nil: the scheduler's own, for which no caller waits.
  private let continuation: Mutex<CheckedContinuation<Answer, any Error>?>

  /// How many tasks it concerned, and those that a transaction was changing.
  struct Answer: Sendable {
    var count = 0
    var left: [TaskID] = []
  }

  init(
    _ change: Change, _ ids: [TaskID], if condition: Condition? = nil,
    _ continuation: CheckedContinuation<Answer, any Error>? = nil
  ) {
    self.change = change
    self.ids = ids
    self.condition = condition
    self.continuation = Mutex(continuation)
  }

  func end(_ answer: Answer) { continuation.withLock { $0.take() }?.resume(returning: answer) }
  func fail(_ error: any Error) { continuation.withLock { $0.take() }?.resume(throwing: error) }
}
