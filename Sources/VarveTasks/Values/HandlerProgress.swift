/// The progress that a handler reports.
public struct HandlerProgress: Hashable, Encodable, Sendable {
  /// The completed fraction, from 0 to 1.
  public let fraction: Double
  /// A note of the handler.
  public let note: String?

  init(_ fraction: Double, _ note: String?) {
    self.fraction = min(max(fraction.isNaN ? 0 : fraction, 0), 1)
    self.note = note
  }
}
