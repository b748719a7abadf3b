internal import Synchronization

/// A change of tasks that a program requests outside of its transactions.
///
/// The scheduler makes it in its own commits, each of at most 512 tasks.
final class ChangeRequest: Sendable {
  enum Change: Sendable {
    case cancel, wake, revive, delete
    /// Cancels an attempt that a transaction has cancelled, but whose end was committed before the transaction or
    /// while it ran.
    case cancelMissed
  }

  /// A condition on a task that may have become false since the task was selected.
  enum Condition: Sendable {
    case states(Set<TaskState>)
    case signal(String)

    /// Returns whether a task fulfills the condition.
    func holds(_ record: TaskRecord, _ state: TaskState) -> Bool {
      switch self {
      case .states(let states): states.contains(state)
      case .signal(let text): record.signals.contains(text)
      }
    }
  }

  let change: Change
  let ids: [TaskID]
  /// The condition under which a task is changed, or `nil` if it is changed in any case.
  let condition: Condition?
  /// The continuation of the caller, or `nil` for a request of the scheduler itself.
  private let continuation: Mutex<CheckedContinuation<Answer, any Error>?>

  /// The number of tasks that were changed, and the tasks that could not be changed yet, because a transaction was
  /// changing them or their attempts ended in the same commit.
  struct Answer: Sendable {
    var count = 0
    var remaining: [TaskID] = []
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
