/// The rule by which a counter of 64 bits combines its number with another.
///
/// ```
///  sum       the number, little-endian, two's complement
///  maximum   the number, big-endian, with its first bit inverted: bytes in the order of the numbers
/// ```
/// The encoding is stored on disk and must never change.
public enum CounterRule: Sendable, Hashable {
  /// The sum of both numbers. A sum that exceeds 64 bits wraps around, and a missing counter counts as zero.
  case sum
  /// The larger of both numbers. A missing counter takes any number.
  case maximum

  /// Returns the eight bytes that encode a number.
  public func bytes(_ number: Int64) -> [UInt8] {
    switch self {
    case .sum: StorageBatch.counterBytes(number)
    case .maximum: (0..<8).map { UInt8(truncatingIfNeeded: (number ^ .min) >> (56 - 8 * $0)) }
    }
  }

  /// Returns the number that a counter's value encodes, or nil if the value is not eight bytes long.
  public func number(_ bytes: [UInt8]) -> Int64? {
    switch self {
    case .sum: StorageBatch.counterNumber(bytes)
    case .maximum:
      bytes.count == 8 ? bytes.reduce(0) { $0 << 8 | Int64($1) } ^ .min : nil
    }
  }

  /// Returns the number of a counter after it has taken `other`. `number` is its previous number, or nil if it did not
  /// exist.
  public func taking(_ other: Int64, into number: Int64?) -> Int64 {
    guard let number else { return other }
    return self == .sum ? number &+ other : max(number, other)
  }
}
