public import Foundation

/// An event in the life of a task.
///
/// Events are derived from committed changes and are not a guarantee by themselves: after the death of a process, the
/// last events may never be received.
public struct TaskEvent: Hashable, Encodable, Sendable {
  /// The kind of an event. The numbers are on disk: never change.
  public enum Kind: UInt8, Hashable, Codable, Sendable, CaseIterable {
    /// An attempt has begun.
    case started = 1
    /// The task is done.
    case done = 2
    /// An attempt has failed, and another follows.
    case failed = 3
    /// The handler has postponed the task.
    case snoozed = 4
    /// The task waits for a call of `retryNow` or a signal.
    case parked = 5
    /// The task has failed permanently.
    case dead = 6
    /// The task was cancelled.
    case cancelled = 7
    /// The time limit of the attempt or the lease of its handler has expired. Another event reports whether the task
    /// has failed or is dead.
    case timedOut = 8
    /// The task was running when the process died.
    case crashed = 9
    /// The scheduler stopped before the attempt had ended.
    case interrupted = 10
    /// One or more times of a schedule have passed without a task for them: no scheduler ran, the task of an earlier
    /// time had not ended (`ScheduleRules.Overlap.skip`), the queue is drained, or the payload could not be made. The
    /// detail has their number and the reasons. The id is 0.
    case slotMissed = 11
    /// A handler that was cancelled has not returned, and was abandoned.
    case abandoned = 12
    /// The clock was set back: at the start of the scheduler, the time of day was more than an hour before the latest
    /// time at which tasks have run. The id is 0.
    case clockSetBack = 13
    /// A task could run, and no handler is registered for its kind. Sent for the first task of each kind, after a start
    /// and after each call of `register`.
    case unhandled = 14
  }

  /// The kind of the event.
  public let kind: Kind
  /// The id of the task.
  public let id: TaskID
  /// The kind of the task's payload, or the name of the schedule for a time of a schedule.
  public let payloadKind: String
  /// The queue of the task.
  public let queue: QueueName
  /// The number of the attempt.
  public let attempt: Int
  /// The time of the event by the scheduler's clock.
  public let date: Date
  /// The text of an error, or other details.
  public let detail: String?

  init(
    _ kind: Kind, _ id: TaskID, _ payloadKind: String, _ queue: QueueName, attempt: Int, _ time: Int64,
    _ detail: String? = nil
  ) {
    self.kind = kind
    self.id = id
    self.payloadKind = payloadKind
    self.queue = queue
    self.attempt = attempt
    date = WallTime.date(time)
    self.detail = detail
  }
}
