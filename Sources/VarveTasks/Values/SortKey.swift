public import Foundation

/// Where a task stands among those of its queue and priority: smaller keys first, and among equal keys the order of commits.
/// Tasks without a key come before those with one.
///
/// Keys of different kinds can be compared: numbers come before dates, and dates before texts.
public struct SortKey: Hashable, Codable, Comparable, Sendable {
  /// Bytes whose order is that of the keys: a tag, and then the number or date as 8 bytes, big-endian, with the sign bit
  /// flipped, or the text as UTF-8.
  let bytes: [UInt8]

  /// The most bytes that a text has.
  public static let sizeMaximum = 255

  init(bytes: [UInt8]) { self.bytes = bytes }

  /// A number.
  public init(_ number: Int64) { bytes = [1] + Self.ordered(number) }

  /// A date, to the microsecond.
  public init(_ date: Date) {
    let microseconds = (date.timeIntervalSince1970 * 1_000_000).rounded()
    bytes = [2] + Self.ordered(Int64(exactly: microseconds) ?? (microseconds < 0 ? .min : .max))
  }

  /// A text, by its UTF-8.
  public init(_ text: String) { bytes = [3] + Array(ComposedName.of(text).utf8) }

  /// Smaller keys first.
  public static func < (left: SortKey, right: SortKey) -> Bool { left.bytes.lexicographicallyPrecedes(right.bytes) }

  private static func ordered(_ number: Int64) -> [UInt8] {
    let bits = UInt64(bitPattern: number) ^ (1 << 63)
    return stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: bits >> UInt64($0)) }
  }
}
