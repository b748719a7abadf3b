/// A rule that keeps a task from being enqueued twice: of those of one kind that have one key only the first is.
///
/// ```swift
/// var options = Refresh.defaults
/// options.unique = Uniqueness(key: "account-7", onConflict: .replacePayload)
/// ```
public struct Uniqueness: Hashable, Codable, Sendable {
  /// For how long a key is taken.
  public enum Window: Hashable, Codable, Sendable {
    /// Until its task has ended: while it is blocked, scheduled, ready, running, waits to be run again, or is parked.
    case whileLive
    /// Until the time of day has come to the next multiple of a duration, counted from 1970, also where the task has ended: one
    /// task a day for `.bucket(.seconds(86_400))`, whose days begin at midnight in UTC.
    case bucket(Duration)
    /// For a time after the task was enqueued, also where it has ended.
    case sliding(Duration)
    /// For ever, also where the task is gone: until `WriteTransaction.delete` of the task, or of `TaskQuery.unique`.
    case forever
  }

  /// What becomes of a second task whose key is taken. Where the first task has ended, and its key is still taken, the second one
  /// is left out by each of these, or throws by `fail`.
  public enum OnConflict: Hashable, Codable, Sendable {
    /// It is left out.
    case skip
    /// A first task that waits gets its payload. After one that runs it is enqueued as with `rerun`.
    case replacePayload
    /// As `replacePayload`, and the first task then waits so long from now on.
    case debounce(Duration)
    /// A first task that waits gets its payload. Where the first one runs, the second one is enqueued and runs after it has
    /// ended, so that nothing is missed that the first one did not see. Further ones replace its payload.
    case rerun
    /// The call throws `TaskError.duplicate`.
    case fail
  }

  /// Its key within its kind, of at most 1 KiB; nil: the bytes of the payload.
  public var key: String?
  /// For how long it is taken.
  public var window: Window
  /// What becomes of a second one.
  public var onConflict: OnConflict

  /// A rule.
  public init(key: String? = nil, window: Window = .whileLive, onConflict: OnConflict = .skip) {
    self.key = key
    self.window = window
    self.onConflict = onConflict
  }

  /// Until when a key is taken whose task is enqueued now, in milliseconds since 1970; nil: until the task has ended.
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

  /// Why it can't be used; nil: it can.
  var refusal: String? {
    switch window {
    case .bucket(let time) where time <= .zero: return "a bucket of \(time) is not positive"
    case .sliding(let time) where time <= .zero: return "a window of \(time) is not positive"
    default: break
    }
    if case .debounce(let time) = onConflict, time < .zero { return "a delay of \(time) is negative" }
    return nil
  }
}

/// What came of a call that enqueues a task.
public enum EnqueueResult: Hashable, Sendable {
  /// A task was added.
  case inserted(TaskID)
  /// Nothing was: its key is that of this task.
  case duplicate(of: TaskID)
  /// This task, which waits, has the payload now.
  case replaced(TaskID)

  /// The task that stands for the call.
  public var id: TaskID {
    switch self {
    case .inserted(let id), .duplicate(let id), .replaced(let id): id
    }
  }
}
