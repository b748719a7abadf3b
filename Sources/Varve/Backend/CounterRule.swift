/// How a counter of 64 bits takes a number.
///
/// ```
///  sum       the number, little-endian, two's complement
///  maximum   the number, big-endian, with its first bit inverted: bytes in the order of the numbers
/// ```
/// On disk: never change.
public enum CounterRule: Sendable, Hashable {
  /// It is added; a sum that leaves the 64 bits wraps around. A counter that is not there counts as zero.
  case sum
  /// The larger of both is kept. A counter that is not there takes any number.
  case maximum

  /// The eight bytes of a number.
  public func bytes(_ number: Int64) -> [UInt8] {
    switch self {
    case .sum: StorageBatch.counterBytes(number)
    case .maximum: (0..<8).map { UInt8(truncatingIfNeeded: (number ^ .min) >> (56 - 8 * $0)) }
    }
  }

  /// The number that a counter's value says; nil where it has not eight bytes.
  public func number(_ bytes: [UInt8]) -> Int64? {
    switch self {
    case .sum: StorageBatch.counterNumber(bytes)
    case .maximum:
      bytes.count == 8 ? bytes.reduce(0) { $0 << 8 | Int64($1) } ^ .min : nil
    }
  }

  /// What a counter is that said `number`, or was not there, after it has taken another.
  public func taking(_ other: Int64, into number: Int64?) -> Int64 {
    guard let number else { return other }
    return self == .sum ? number &+ other : max(number, other)
  }
}
