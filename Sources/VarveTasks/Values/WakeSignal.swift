/// A signal that a parked task may wait for, such as `"network"` or `"signed-in"`.
///
/// `TaskScheduler.signal(_:)` makes all tasks ready that wait for it.
public struct WakeSignal: Hashable, Comparable, Codable, Sendable, ExpressibleByStringInterpolation,
  CustomStringConvertible
{
  /// The text.
  public let text: String

  /// The maximum size of a signal in bytes.
  public static let sizeMaximum = 255

  /// Creates a signal.
  public init(_ text: String) { self.text = ComposedName.of(text) }

  /// Creates a signal from a string literal, which may have interpolations, as in `"reply-\(number)"`.
  public init(stringLiteral text: String) { self.init(text) }

  /// Compares signals by the Unicode scalars of their texts.
  public static func < (left: WakeSignal, right: WakeSignal) -> Bool { left.text < right.text }

  /// The text.
  public var description: String { text }
}
