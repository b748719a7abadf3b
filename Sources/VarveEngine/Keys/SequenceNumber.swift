/// The position of a commit in the order of all commits.
///
/// 56 bits, so that a sequence number and an entry's kind share one 64-bit word. Each entry of a batch has the sequence
/// number of the batch's first entry plus its index in the batch. Zero is before every commit.
public struct SequenceNumber: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The number itself, below 2^56.
  public let value: UInt64

  /// Makes a sequence of its number, which must be below 2^56.
  @inline(__always)
  public init(_ value: UInt64) { self.value = value }

  /// Before every commit.
  public static let zero = SequenceNumber(0)
  /// After every commit: a read at this sequence sees the newest of everything.
  public static let maximum = SequenceNumber((1 << 56) - 1)

  /// From here on are the sequences of what a transaction has written and not committed: above all commits.
  static let uncommitted = SequenceNumber(1 << 55)

  /// What the entry with this number of an uncommitted batch has instead of a sequence.
  @inline(__always)
  static func pending(_ number: UInt64) -> SequenceNumber { SequenceNumber(uncommitted.value + number) }

  /// Commit order.
  @inline(__always)
  public static func < (left: SequenceNumber, right: SequenceNumber) -> Bool { left.value < right.value }
  /// The decimal number.
  public var description: String { "\(value)" }
}
