/// A step from one snapshot to a later one, of a connection (`Connection.advanceHolding()`) or of the values that a
/// user interface shows.
public struct LiveStep: Sendable {
  /// The snapshot before, or `nil` at the first step.
  public let old: HeldSnapshot?
  /// The snapshot now.
  public let new: HeldSnapshot
  /// The commits in between in order, or a gap where they are not known.
  public let events: [ChangeEvent]

  /// Creates a step.
  public init(old: HeldSnapshot?, new: HeldSnapshot, events: [ChangeEvent]) {
    self.old = old
    self.new = new
    self.events = events
  }
}
