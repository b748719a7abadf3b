/// How far a handler says it is.
public struct HandlerProgress: Hashable, Sendable {
  /// From 0 to 1.
  public let fraction: Double
  /// What else it says.
  public let note: String?

  init(_ fraction: Double, _ note: String?) {
    self.fraction = min(max(fraction.isNaN ? 0 : fraction, 0), 1)
    self.note = note
  }
}
