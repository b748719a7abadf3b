/// The result that a handler returns for an attempt. A handler that throws has failed; the task's retries then apply.
public enum TaskOutcome: Hashable, Sendable {
  /// The task is done.
  case done
  /// The attempt has failed, and the task runs again after a time, or as its retries specify if that is `nil`.
  ///
  /// With `.zero` it runs again at once, in its position.
  case retry(after: Duration? = nil)
  /// The attempt has failed, and the task runs again after a call of `retryNow`, or when one of the signals is sent: at
  /// most 1,000, of at most 255 bytes each. With others, the attempt has failed as if the handler had thrown an error.
  case park(wakeOn: Set<WakeSignal> = [])
  /// The task was not attempted: it runs again after a time, and the attempt does not count.
  case snooze(for: Duration)
  /// The task can't succeed, and is dead from now on.
  case discard(String)
}
