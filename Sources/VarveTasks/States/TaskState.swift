/// The state of a task. The numbers are on disk: never change.
///
/// ```
///             ┌─────────┐ last parent    ┌───────────┐ due
///             │ blocked ├───────────────▶│ scheduled ├─────┐
///             └─────────┘                └───────────┘     ▼
///                                             ▲ snooze ┌───────┐ claim ┌─────────┐ done
///   ┌────────┐ wake ───────────────────────────────────▶ ready ├──────▶│ running ├──────▶ done
///   │ parked │                                │        └───────┘       └─┬─┬─┬─┬─┘
///   └────────┘◀────────────── park ───────────┴──────────────────────────┘ │ │ │
///   ┌───────────┐ due ▶ ready                                              │ │ └──▶ cancelled
///   │ retryWait │◀──────────────────── failed, attempts are left ──────────┘ └────▶ dead
///   └───────────┘
/// ```
public enum TaskState: UInt8, Hashable, Codable, Sendable, CaseIterable {
  /// The task waits for tasks that it depends on.
  case blocked = 0
  /// The task waits for a time, and has not been run or was postponed by its handler.
  case scheduled = 1
  /// The task may run.
  case ready = 2
  /// A handler runs the task.
  case running = 3
  /// The task has failed, and waits for the time of its next attempt.
  case retryWait = 4
  /// The task waits for a call of `retryNow` or a signal.
  case parked = 5
  /// The task has succeeded.
  case done = 6
  /// The task has failed permanently.
  case dead = 7
  /// The task was cancelled.
  case cancelled = 8

  /// Whether the task has ended: `done`, `dead` or `cancelled`.
  public var isSettled: Bool { self == .done || self == .dead || self == .cancelled }
  /// Whether the task is yet to run: it has not ended and does not run now.
  public var isWaiting: Bool { !isSettled && self != .running }
}
