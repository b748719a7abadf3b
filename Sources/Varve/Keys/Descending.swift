/// A key in descending order: the greatest value comes first, and nil last.
///
/// ```swift
/// // Titles of one shelf, the newest first.
/// let key = Compound("shelf", Descending(1999), "title")
/// ```
///
/// Its encoding is that of the value with all bits inverted (`KeyTag`), so the parts before and after it keep their
/// order.
public struct Descending<Value: KeyCodable>: Hashable, Sendable {
  /// The value.
  public let value: Value

  /// Creates a key of a value.
  public init(_ value: Value) { self.value = value }
}

extension Descending: Comparable where Value: Comparable {
  /// Returns whether the value on the left is the greater one.
  public static func < (left: Self, right: Self) -> Bool { left.value > right.value }
}

extension Descending: KeyCodable {
  /// The type is `descending(...)`.
  public static var keyType: KeyType { .descending(Value.keyType) }
  /// Appends the value's parts, inverted.
  public func encodeKey(into encoder: inout KeyEncoder) throws { try encoder.encode(descending: value) }
  /// Decodes the value's parts.
  public static func decodeKey(from decoder: inout KeyDecoder) throws -> Self {
    Self(try decoder.decode(descending: Value.self))
  }
}

extension Descending: Encodable where Value: Encodable {
  /// Encodes the value.
  public func encode(to encoder: any Encoder) throws { try value.encode(to: encoder) }
}

extension Descending: Decodable where Value: Decodable {
  /// Decodes the value.
  public init(from decoder: any Decoder) throws { value = try Value(from: decoder) }
}
