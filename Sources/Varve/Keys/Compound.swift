/// Several values as one key, which is sorted by the first, then by the second, and so on.
///
/// ```swift
/// let key = Compound(1999, "A")
/// print(key.values.0, key.values.1)
/// ```
///
/// Its encoding is that of its values, one after the other, without a header, so that keys that begin with the same
/// values are adjacent.
public struct Compound<each Value: KeyCodable>: Sendable {
  /// The values, as a tuple.
  public let values: (repeat each Value)

  /// Creates a key of values.
  public init(_ value: repeat each Value) { values = (repeat each value) }
}

extension Compound: Hashable {
  /// Returns whether all values are equal.
  public static func == (left: Self, right: Self) -> Bool {
    for (first, second) in repeat (each left.values, each right.values) {
      if first != second { return false }
    }
    return true
  }

  /// Hashes each value.
  public func hash(into hasher: inout Hasher) { for value in repeat each values { hasher.combine(value) } }
}

extension Compound: Comparable where repeat each Value: Comparable {
  /// Compares the first pair of values that differ.
  public static func < (left: Self, right: Self) -> Bool {
    for (first, second) in repeat (each left.values, each right.values) {
      if first != second { return first < second }
    }
    return false
  }
}

extension Compound: KeyCodable {
  /// The type is `compound(...)`.
  public static var keyType: KeyType {
    var parts: [KeyType] = []
    for type in repeat (each Value).self { parts.append(type.keyType) }
    return .compound(parts)
  }

  /// Appends the values.
  public func encodeKey(into encoder: inout KeyEncoder) throws {
    for value in repeat each values { try value.encodeKey(into: &encoder) }
  }

  /// Decodes the values.
  public static func decodeKey(from decoder: inout KeyDecoder) throws -> Self {
    Self(repeat try (each Value).decodeKey(from: &decoder))
  }
}

extension Compound: Encodable where repeat each Value: Encodable {
  /// Encodes the values as an array.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.unkeyedContainer()
    for value in repeat each values { try container.encode(value) }
  }
}

extension Compound: Decodable where repeat each Value: Decodable {
  /// Decodes the values from an array.
  public init(from decoder: any Decoder) throws {
    var container = try decoder.unkeyedContainer()
    values = (repeat try container.decode((each Value).self))
  }
}
