/// The number of a column family, which is assigned once and never reused after a drop.
public struct FamilyID: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The number, as files store it.
  public let value: UInt32

  /// Creates an id from its number.
  @inline(__always)
  public init(_ value: UInt32) { self.value = value }

  /// The family that always exists.
  public static let `default` = FamilyID(0)
  /// The largest number. It is never assigned, because no family could follow it.
  static let maximum = FamilyID(UInt32.max)

  /// The id that is assigned after this one. Requires that this id is below the maximum.
  var next: FamilyID { FamilyID(value + 1) }

  /// Returns whether `left` was created before `right`.
  @inline(__always)
  public static func < (left: FamilyID, right: FamilyID) -> Bool { left.value < right.value }
  /// The number in decimal.
  public var description: String { "\(value)" }
}

extension FamilyID: Codable {
  /// Decodes the number.
  public init(from decoder: any Decoder) throws { self.init(try UInt32(from: decoder)) }

  /// Encodes the number.
  public func encode(to encoder: any Encoder) throws { try value.encode(to: encoder) }
}
