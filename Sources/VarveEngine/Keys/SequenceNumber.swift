/// The position of a commit in the order of all commits.
///
/// A sequence number has 56 bits, so that it and an entry's kind share one 64-bit word. Each entry of a batch has the
/// sequence number of the batch's first entry plus its index in the batch. Zero is before every commit.
public struct SequenceNumber: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The number, below 2^56.
  public let value: UInt64

  /// Creates a sequence number from an integer, which must be below 2^56.
  @inline(__always)
  public init(_ value: UInt64) { self.value = value }

  /// The sequence number before every commit.
  public static let zero = SequenceNumber(0)
  /// The sequence number after every commit. A read at it returns the newest version of every key.
  public static let maximum = SequenceNumber((1 << 56) - 1)

  /// The lowest sequence number of uncommitted writes of a transaction, above those of all commits.
  static let uncommitted = SequenceNumber(1 << 55)

  /// Returns the sequence number of the entry with the given number in an uncommitted batch.
  @inline(__always)
  static func pending(_ number: UInt64) -> SequenceNumber { SequenceNumber(uncommitted.value + number) }

  /// Returns whether `left` is before `right` in the order of commits.
  @inline(__always)
  public static func < (left: SequenceNumber, right: SequenceNumber) -> Bool { left.value < right.value }
  /// The number in decimal.
  public var description: String { "\(value)" }
}

extension SequenceNumber: Codable {
  /// Decodes the number.
  public init(from decoder: any Decoder) throws { self.init(try UInt64(from: decoder) & Self.maximum.value) }

  /// Encodes the number.
  public func encode(to encoder: any Encoder) throws { try value.encode(to: encoder) }
}
