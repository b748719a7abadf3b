public import Foundation

/// What the queues and kinds of a scheduler do now, as one value for status pages: see `TaskScheduler.summary()`.
///
/// Encoded as JSON, it has an object for each queue, kind and schedule. Durations are in seconds.
public struct TaskSummary: Hashable, Codable, Sendable {
  /// The time of day at which the summary was made.
  public let date: Date
  /// Whether the scheduler runs tasks. If it does not, no task counts as running, and no queue has an oldest task.
  public let isRunning: Bool
  /// Whether no task is started because the database is a copy.
  public let isHeld: Bool
  /// Whether no task begins because the disk is full.
  public let isDiskFull: Bool
  /// The maximum number of handlers that run at once.
  public let workers: Int
  /// The number of tasks that run.
  public let running: Int
  /// The time in seconds for which ends of attempts have been counted, at most 60. Right after the scheduler was
  /// created, the numbers of the last minute are those of this time.
  public let measured: Double
  /// The queues, ordered by name.
  public let queues: [Queue]
  /// The kinds that have a handler or a schedule, that run, or that have run in the last minute, ordered by name.
  public let kinds: [Kind]
  /// The schedules, ordered by name.
  public let schedules: [Schedule]

  /// A queue.
  public struct Queue: Hashable, Codable, Sendable {
    /// The name of the queue.
    public let name: String
    /// Whether the queue is paused.
    public let isPaused: Bool
    /// Whether the queue is being drained.
    public let isDraining: Bool
    /// The dead or parked tasks that the queue waits for, if it is serial.
    public let blockedBy: [TaskID]
    /// The number of tasks that run.
    public let running: Int
    /// The number of tasks that may run.
    public let ready: Int
    /// The number of tasks that wait for a time before their first attempt, or after a snooze.
    public let scheduled: Int
    /// The number of tasks that have failed and wait for their next attempt.
    public let retryWait: Int
    /// The number of tasks that wait for others.
    public let blocked: Int
    /// The number of tasks that are parked.
    public let parked: Int
    /// The number of tasks that have failed permanently.
    public let dead: Int
    /// The number of tasks that have ended by an attempt in the last minute.
    public let settled: Int
    /// The number of attempts that have failed in the last minute.
    public let failed: Int
    /// The time in seconds since the first waiting task was enqueued, or `nil` if none waits.
    public let oldest: Double?
    /// The first waiting task, or `nil` if none waits.
    public let oldestTask: TaskID?
    /// The time of the next slot of a schedule that enqueues to the queue, or `nil` if there is none.
    public let nextSlot: Date?
  }

  /// A kind of payloads.
  public struct Kind: Hashable, Codable, Sendable {
    /// The name of the kind.
    public let name: String
    /// Whether tasks of the kind are due and have no handler.
    public let isUnhandled: Bool
    /// The number of tasks that run.
    public let running: Int
    /// The number of tasks that have ended by an attempt in the last minute.
    public let settled: Int
    /// The number of attempts that have failed in the last minute.
    public let failed: Int
    /// The time of the next slot of a schedule that makes tasks of the kind, or `nil` if there is none.
    public let nextSlot: Date?
  }

  /// A schedule.
  public struct Schedule: Hashable, Codable, Sendable {
    /// The name of the schedule.
    public let name: String
    /// The kind of its tasks.
    public let kind: String
    /// The queue of its tasks.
    public let queue: String
    /// Whether the program has registered it since the start: see `TaskScheduleInfo.isDeclared`.
    public let isDeclared: Bool
    /// The time up to which its slots have been processed.
    public let lastSlot: Date
    /// The time of its next slot, or `nil` if it is not declared, or its expression or zone is not known here.
    public let nextSlot: Date?
  }
}
