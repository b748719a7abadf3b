/// What a handler says at the end of an attempt. A handler that throws has failed: then the task's retries decide.
public enum TaskOutcome: Hashable, Sendable {
  /// The task is done.
  case done
  /// It has failed, and runs again after a time; nil: as its retries say. With `.zero` it runs again at once, in its position.
  case retry(after: Duration? = nil)
  /// It has failed, and runs again when a person says so (`retryNow`), or one of the signals comes.
  case park(wakeOn: Set<WakeSignal> = [])
  /// It has not been tried: it runs again after a time, and the attempt does not count.
  case snooze(for: Duration)
  /// It never succeeds: it is dead now.
  case discard(String)
}
