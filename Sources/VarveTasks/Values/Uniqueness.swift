/// A rule that keeps a task from being enqueued twice: of the tasks of one kind with the same key, only the first is
/// enqueued.
///
/// ```swift
/// var options = Refresh.defaults
/// options.unique = Uniqueness(key: "account-7", onConflict: .replacePayload)
/// ```
public struct Uniqueness: Hashable, Codable, Sendable {
  /// The time for which a key is taken.
  public enum Window: Hashable, Codable, Sendable {
    /// The key is taken until its task has ended: while the task is blocked, scheduled, ready or running, waits to be
    /// run again, or is parked.
    case whileLive
    /// The key is taken until the time of day reaches the next multiple of a duration, counted from 1970, even if the
    /// task has ended. `.bucket(.seconds(86_400))` means one task a day, where days begin at midnight in UTC.
    case bucket(Duration)
    /// The key is taken for a duration after the task was enqueued, even if the task has ended.
    case sliding(Duration)
    /// The key is taken forever, even if the task no longer exists, until `WriteTransaction.delete` of the task or of
    /// `TaskQuery.unique`.
    case forever
  }

  /// The treatment of a second task whose key is taken.
  ///
  /// If the first task has ended and its key is still taken, each case skips the second task, except `fail`, which
  /// throws.
  ///
  /// If the first task is being cancelled, each case enqueues the second one, which runs after the first has ended; and
  /// a transaction of `TaskContext.complete(_:)` may enqueue a task with the key of the one that it completes. Windows
  /// of time are the exception, because they keep a key beyond the end of its task.
  public enum OnConflict: Hashable, Codable, Sendable {
    /// The second task is skipped.
    case skip
    /// A first task that waits receives the payload of the second. If the first task runs, the second one is enqueued
    /// as with `rerun`.
    case replacePayload
    /// Does what `replacePayload` does, and the first task then waits for the duration from now on, but not longer than
    /// `maxWait` after it was enqueued.
    ///
    /// Without `maxWait`, a task may be put off for ever. A task that has been run once, and waits for its next
    /// attempt, is not put off.
    case debounce(Duration, maxWait: Duration? = nil)
    /// A first task that waits receives the payload of the second.
    ///
    /// If the first task runs, the second one is enqueued and runs after the first has ended, so that no change is
    /// missed that the first one did not see. Further tasks replace its payload.
    case rerun
    /// The call throws `TaskError.duplicate`.
    case fail
  }

  /// The key within the kind, of 1 byte to 1 KiB, or `nil` to use the bytes of the payload.
  ///
  /// A key has a character other than white space, and does not begin with U+0000 or U+0001.
  public var key: String?
  /// The time for which the key is taken.
  public var window: Window
  /// The treatment of a second task whose key is taken.
  public var onConflict: OnConflict

  /// Creates a rule.
  public init(key: String? = nil, window: Window = .whileLive, onConflict: OnConflict = .skip) {
    self.key = key
    self.window = window
    self.onConflict = onConflict
  }

  /// Returns the time until which the key of a task that is enqueued now is taken, in milliseconds since 1970.
  ///
  /// Returns `nil` if the key is taken until the task has ended.
  func end(_ now: Int64) -> Int64? {
    switch window {
    case .whileLive: nil
    case .forever: .max
    case .sliding(let time): min(now + max(1, time.milliseconds), WallTime.latest)
    case .bucket(let time):
      {
        let size = max(1, time.milliseconds)
        let begin = now - ((now % size) + size) % size
        return min(begin + size, WallTime.latest)
      }()
    }
  }

  /// The reason why the rule can't be used, or `nil` if it can.
  var refusal: String? {
    switch window {
    case .bucket(let time) where time <= .zero: return "a bucket of \(time) is not positive"
    case .sliding(let time) where time <= .zero: return "a window of \(time) is not positive"
    default: break
    }
    if case .debounce(let time, let maxWait) = onConflict {
      if time < .zero { return "a delay of \(time) is negative" }
      if let maxWait, maxWait < time { return "a maximum wait of \(maxWait) is shorter than the delay of \(time)" }
    }
    if let first = key?.utf8.first, first <= Self.hashedKey {
      return "a key that begins with U+000\(first) may be that of a payload"
    }
    return nil
  }

  /// The first bytes of the keys of payloads without one: of the payload itself, and of its hashes. No key that a
  /// program gives begins with them.
  static let wholeKey: UInt8 = 0
  static let hashedKey: UInt8 = 1
}

/// The result of a call that enqueues a task.
public enum EnqueueResult: Hashable, Sendable {
  /// A task was added.
  case inserted(TaskID)
  /// No task was added, because this task has the same key. The state is that of the task when the call was made, as
  /// far as the transaction sees it, or `nil` if the task has ended and was not kept: its key is taken for a time.
  case duplicate(of: TaskID, TaskState?)
  /// This task, which waits, has received the payload.
  case replaced(TaskID)

  /// The id of the task that represents the call.
  public var id: TaskID {
    switch self {
    case .inserted(let id), .duplicate(let id, _), .replaced(let id): id
    }
  }
}
