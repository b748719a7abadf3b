/// Where a task is in its life. The numbers are on disk: never change.
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
  /// It waits for tasks that it depends on.
  case blocked = 0
  /// It waits for a time, and was not run, or was put off.
  case scheduled = 1
  /// It may run.
  case ready = 2
  /// A handler has it.
  case running = 3
  /// It has failed, and waits for the time at which it runs again.
  case retryWait = 4
  /// It waits for a person or a signal.
  case parked = 5
  /// It has succeeded.
  case done = 6
  /// It has failed for good.
  case dead = 7
  /// It was cancelled.
  case cancelled = 8

  /// Whether it has ended: `done`, `dead` or `cancelled`.
  public var isSettled: Bool { self == .done || self == .dead || self == .cancelled }
  /// Whether it waits for something, to run after that.
  public var isWaiting: Bool { !isSettled && self != .running }
}
