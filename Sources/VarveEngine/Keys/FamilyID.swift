/// The number of a column family: given once, never used again after a drop.
public struct FamilyID: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The number itself, as files have it.
  public let value: UInt32

  /// Makes an id of its number.
  @inline(__always)
  public init(_ value: UInt32) { self.value = value }

  /// The family that is always there.
  public static let `default` = FamilyID(0)
  /// Never given: no family can follow it.
  static let maximum = FamilyID(UInt32.max)

  /// The id that is given after this one. Requires: below the maximum.
  var next: FamilyID { FamilyID(value + 1) }

  /// The order in which families are created.
  @inline(__always)
  public static func < (left: FamilyID, right: FamilyID) -> Bool { left.value < right.value }
  /// The decimal number.
  public var description: String { "\(value)" }
}
