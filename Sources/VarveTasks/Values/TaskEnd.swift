/// The way in which a task has ended: see `TaskScheduler.end(of:)`.
public enum TaskEnd: String, Hashable, Codable, Sendable {
  /// The task is done.
  case done
  /// The task has failed permanently. It stays in the database until it is revived or deleted.
  case dead
  /// The task was cancelled, by a call or because a task that it depends on has failed.
  case cancelled
  /// The task was deleted before it had ended.
  case deleted
  /// The task had ended before the call, is not one of the last that have ended, and was not kept
  /// (`TaskOptions.retention`), so that it is not known how.
  case forgotten

  /// The end that a state is, or `nil` for a task that has not ended.
  init?(_ state: TaskState) {
    switch state {
    case .done: self = .done
    case .dead: self = .dead
    case .cancelled: self = .cancelled
    case .blocked, .scheduled, .ready, .running, .retryWait, .parked: return nil
    }
  }
}
