public import Foundation

/// The position of a task among the tasks of its queue and priority: smaller keys first, and tasks with equal keys in
/// the order of their commits. Tasks without a key come before tasks with one.
///
/// Keys of different kinds can be compared: numbers come before dates, and dates before texts.
public struct SortKey: Hashable, Codable, Comparable, Sendable {
  /// Bytes whose order is that of the keys: a tag, and then the number or date as 8 bytes, big-endian, with the sign
  /// bit flipped, or the text as UTF-8.
  let bytes: [UInt8]

  /// The maximum size of a text in bytes.
  public static let sizeMaximum = 255

  init(bytes: [UInt8]) { self.bytes = bytes }

  /// Creates the key of a number.
  public init(_ number: Int64) { bytes = [1] + Self.ordered(number) }

  /// Creates the key of a date, to the microsecond.
  public init(_ date: Date) {
    let microseconds = (date.timeIntervalSince1970 * 1_000_000).rounded()
    bytes = [2] + Self.ordered(Int64(exactly: microseconds) ?? (microseconds < 0 ? .min : .max))
  }

  /// Creates the key of a text, which sorts by its UTF-8.
  public init(_ text: String) { bytes = [3] + Array(ComposedName.of(text).utf8) }

  /// Returns whether the left key comes first.
  public static func < (left: SortKey, right: SortKey) -> Bool { left.bytes.lexicographicallyPrecedes(right.bytes) }

  private static func ordered(_ number: Int64) -> [UInt8] {
    let bits = UInt64(bitPattern: number) ^ (1 << 63)
    return stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: bits >> UInt64($0)) }
  }
}
