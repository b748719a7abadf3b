/// How a schedule treats times that have passed, and a task that has not ended when the next one is due.
public struct ScheduleRules: Hashable, Codable, Sendable {
  /// How scheduled times are treated at which no scheduler ran tasks, or that passed more than a minute ago.
  public enum Missed: Hashable, Codable, Sendable {
    /// Missed times are skipped.
    case skip
    /// The last missed time is made up for, once.
    case latest
    /// At most `max` of the last missed times are made up for, the oldest first.
    case all(max: Int)
  }

  /// How a scheduled time is treated while the task of the previous time has not ended.
  public enum Overlap: String, Hashable, Codable, Sendable {
    /// Both tasks run.
    case allow
    /// The time is skipped, and the event `slotMissed` says so.
    ///
    /// A task that waits for its next attempt, is parked, or waits in its queue has not ended. It also holds for times
    /// that are made up for: of several that are made up for at once, only the first one has a task.
    case skip
    /// The next task runs after the previous one.
    case queue
  }

  /// The treatment of times that have passed.
  public var missed: Missed
  /// The age from which on missed times are skipped, or `nil` if there is no limit.
  public var grace: Duration?
  /// The treatment of a time while the task of the previous time has not ended.
  public var overlap: Overlap

  /// Creates rules. By default the last missed time is made up for, and tasks may overlap.
  public init(missed: Missed = .latest, grace: Duration? = nil, overlap: Overlap = .allow) {
    self.missed = missed
    self.grace = grace
    self.overlap = overlap
  }
}
