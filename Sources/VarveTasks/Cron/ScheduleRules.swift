/// What a schedule does with times that have passed, and with a task that has not ended when the next one is due.
public struct ScheduleRules: Hashable, Codable, Sendable {
  /// Times at which nothing ran tasks, or that passed more than a minute ago.
  public enum Missed: Hashable, Codable, Sendable {
    /// They are left out.
    case skip
    /// The last one is made up for, once.
    case latest
    /// So many of the last ones are made up for, the oldest first.
    case all(max: Int)
  }

  /// The task of the time before has not ended.
  public enum Overlap: String, Hashable, Codable, Sendable {
    /// Both run.
    case allow
    /// The time is left out.
    case skip
    /// The next task runs after it.
    case queue
  }

  /// What becomes of times that have passed.
  public var missed: Missed
  /// Times that passed longer ago are left out; nil: none are.
  public var grace: Duration?
  /// What becomes of a time while the task of the one before has not ended.
  public var overlap: Overlap

  /// The last time that was missed is made up for, and tasks may overlap.
  public init(missed: Missed = .latest, grace: Duration? = nil, overlap: Overlap = .allow) {
    self.missed = missed
    self.grace = grace
    self.overlap = overlap
  }
}
