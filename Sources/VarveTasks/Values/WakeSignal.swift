/// What a parked task may wait for: `"network"`, `"signed-in"`. `TaskScheduler.signal(_:)` makes all tasks ready that wait for it.
public struct WakeSignal: Hashable, Comparable, Codable, Sendable, ExpressibleByStringLiteral, CustomStringConvertible {
  /// The text.
  public let text: String

  /// The most bytes that a signal has.
  public static let sizeMaximum = 255

  /// A signal.
  public init(_ text: String) { self.text = ComposedName.of(text) }

  /// A signal.
  public init(stringLiteral text: String) { self.init(text) }

  /// By the Unicode scalars of the texts.
  public static func < (left: WakeSignal, right: WakeSignal) -> Bool { left.text < right.text }

  /// The text.
  public var description: String { text }
}
