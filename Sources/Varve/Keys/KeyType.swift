/// The name of a key type, which the catalog stores for a collection, so that opening it with keys of another type is
/// detected.
///
/// It identifies the encoding, not the Swift type: `Int8` and `UInt64` are both `int`, and an ISBN whose raw value is a
/// string is `string`. So one can replace the other without a migration.
public struct KeyType: Hashable, Sendable, CustomStringConvertible {
  /// The name, such as `string`, `int`, `optional(int)`, `compound(int,string)`.
  public let name: String

  /// Creates a type by its name, for a key type of the program whose encoding the types below do not describe.
  public init(_ name: String) { self.name = name }

  /// The type of `String`.
  public static let string = KeyType("string")
  /// The type of integers of each width.
  public static let integer = KeyType("int")
  /// The type of `Double` and `Float`.
  public static let double = KeyType("double")
  /// The type of `Bool`.
  public static let bool = KeyType("bool")
  /// The type of `Data`.
  public static let data = KeyType("data")
  /// The type of `Date`.
  public static let date = KeyType("date")
  /// The type of `UUID`.
  public static let uuid = KeyType("uuid")

  /// The type of `Decimal`.
  public static let decimal = KeyType("decimal")
  /// The type of `Duration`.
  public static let duration = KeyType("duration")

  /// Returns the type of a ``Descending`` value.
  public static func descending(_ value: KeyType) -> KeyType { KeyType("descending(\(value.name))") }

  /// Returns the type of an optional.
  public static func optional(_ wrapped: KeyType) -> KeyType { KeyType("optional(\(wrapped.name))") }

  /// Returns the type of several parts: a `Compound`, or a key type of the program that encodes several values.
  public static func compound(_ parts: KeyType...) -> KeyType { compound(parts) }

  /// Returns the type of several parts.
  public static func compound(_ parts: [KeyType]) -> KeyType {
    KeyType("compound(\(parts.map(\.name).joined(separator: ",")))")
  }

  /// The name.
  public var description: String { name }

  /// Returns whether keys of this type begin with the parts of another.
  func begins(with first: KeyType) -> Bool {
    guard let parts = partNames else { return false }
    let wanted = first.partNames ?? first.name[...]
    guard parts.hasPrefix(wanted) else { return false }
    return parts.count == wanted.count || parts.dropFirst(wanted.count).first == ","
  }

  /// The names of the parts, such as `int,string` for `compound(int,string)`, or nil if the type is not compound.
  private var partNames: Substring? {
    name.hasPrefix("compound(") && name.hasSuffix(")") ? name.dropFirst("compound(".count).dropLast() : nil
  }
}
