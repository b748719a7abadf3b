/// The name of a type of keys: what the catalog keeps for a collection, so that opening it with keys of another
/// type is found.
///
/// It names what is encoded, not the Swift type: `Int8` and `UInt64` are both `int`, an ISBN whose raw value is a
/// string is `string`. So one may replace the other without a migration.
public struct KeyType: Hashable, Sendable, CustomStringConvertible {
  /// `string`, `int`, `optional(int)`, `compound(int,string)`.
  public let name: String

  /// A type by its name: for a key type of a program whose form the names below don't describe.
  public init(_ name: String) { self.name = name }

  /// `String`.
  public static let string = KeyType("string")
  /// Integers of each width.
  public static let integer = KeyType("int")
  /// `Double` and `Float`.
  public static let double = KeyType("double")
  /// `Bool`.
  public static let bool = KeyType("bool")
  /// `Data`.
  public static let data = KeyType("data")
  /// `Date`.
  public static let date = KeyType("date")
  /// `UUID`.
  public static let uuid = KeyType("uuid")

  /// `Decimal`.
  public static let decimal = KeyType("decimal")
  /// `Duration`.
  public static let duration = KeyType("duration")

  /// A ``Descending`` value.
  public static func descending(_ value: KeyType) -> KeyType { KeyType("descending(\(value.name))") }

  /// An optional.
  public static func optional(_ wrapped: KeyType) -> KeyType { KeyType("optional(\(wrapped.name))") }

  /// Parts one after the other: a `Compound`, or a key type of a program that encodes several values.
  public static func compound(_ parts: KeyType...) -> KeyType { compound(parts) }

  /// Parts one after the other.
  public static func compound(_ parts: [KeyType]) -> KeyType {
    KeyType("compound(\(parts.map(\.name).joined(separator: ",")))")
  }

  /// The name.
  public var description: String { name }

  /// Whether keys of this type have those of another, or its parts, as their first parts.
  func begins(with first: KeyType) -> Bool {
    guard let parts = partNames else { return false }
    let wanted = first.partNames ?? first.name[...]
    guard parts.hasPrefix(wanted) else { return false }
    return parts.count == wanted.count || parts.dropFirst(wanted.count).first == ","
  }

  /// `int,string` of `compound(int,string)`; nil for one of no parts.
  private var partNames: Substring? {
    name.hasPrefix("compound(") && name.hasSuffix(")") ? name.dropFirst("compound(".count).dropLast() : nil
  }
}
