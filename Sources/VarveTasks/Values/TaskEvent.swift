public import Foundation

/// Something that has happened to a task. It comes of what was committed, and guarantees nothing by itself: after the death of a process
/// the last ones may never be received.
public struct TaskEvent: Hashable, Sendable {
  /// What has happened. The numbers are on disk: never change.
  public enum Kind: UInt8, Hashable, Codable, Sendable, CaseIterable {
    /// An attempt has begun.
    case started = 1
    /// It is done.
    case done = 2
    /// An attempt has failed, and another follows.
    case failed = 3
    /// It was put off by its handler.
    case snoozed = 4
    /// It waits for a person or a signal.
    case parked = 5
    /// It has failed for good.
    case dead = 6
    /// It was cancelled.
    case cancelled = 7
    /// Its time limit, or the lease of its handler, was over. It has failed, or is dead, as another event says.
    case timedOut = 8
    /// It was running when the process died.
    case crashed = 9
    /// The scheduler stopped before it had ended.
    case interrupted = 10
    /// A time of a schedule was left out. The id is 0.
    case slotMissed = 11
    /// A handler that was cancelled does not return, and was abandoned.
    case abandoned = 12
    /// The time of day is more than an hour before one at which tasks have run. The id is 0.
    case clockSetBack = 13
  }

  /// What has happened.
  public let kind: Kind
  /// The task.
  public let id: TaskID
  /// The kind of its payload; of a time of a schedule the name of that.
  public let payloadKind: String
  /// Its queue.
  public let queue: QueueName
  /// The number of the attempt.
  public let attempt: Int
  /// When, by the scheduler's clock.
  public let date: Date
  /// The text of an error, or what else there is to say.
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
