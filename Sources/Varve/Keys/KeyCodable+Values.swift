public import Foundation

extension String: KeyCodable {
  /// The type is `string`.
  public static var keyType: KeyType { .string }
  /// Appends the string in normal form C.
  public func encodeKey(into encoder: inout KeyEncoder) { encoder.append(string: self) }
  /// Decodes a string.
  public static func decodeKey(from decoder: inout KeyDecoder) throws -> String { try decoder.decodeString() }
}

extension Data: KeyCodable {
  /// The type is `data`.
  public static var keyType: KeyType { .data }
  /// Appends the bytes.
  public func encodeKey(into encoder: inout KeyEncoder) { encoder.append(data: self) }
  /// Decodes bytes.
  public static func decodeKey(from decoder: inout KeyDecoder) throws -> Data { try decoder.decodeData() }
}

extension UUID: KeyCodable {
  /// The type is `uuid`.
  public static var keyType: KeyType { .uuid }
  /// Appends the 16 bytes.
  public func encodeKey(into encoder: inout KeyEncoder) { encoder.append(uuid: self) }
  /// Decodes a UUID.
  public static func decodeKey(from decoder: inout KeyDecoder) throws -> UUID { try decoder.decodeUUID() }
}

extension Date: KeyCodable {
  /// The type is `date`.
  public static var keyType: KeyType { .date }
  /// Appends the date with its full precision. *Throws* `.invalidKey` if its seconds are NaN.
  public func encodeKey(into encoder: inout KeyEncoder) throws { try encoder.append(date: self) }
  /// Decodes a date.
  public static func decodeKey(from decoder: inout KeyDecoder) throws -> Date { try decoder.decodeDate() }
}

/// The key is the number, independent of its representation: 1.0 and 1.00 are the same key.
extension Decimal: KeyCodable {
  /// The type is `decimal`.
  public static var keyType: KeyType { .decimal }
  /// Appends the number. *Throws* `.invalidKey` for a NaN.
  public func encodeKey(into encoder: inout KeyEncoder) throws { try encoder.append(decimal: self) }
  /// Decodes a number.
  public static func decodeKey(from decoder: inout KeyDecoder) throws -> Decimal { try decoder.decodeDecimal() }
}

extension Duration: KeyCodable {
  /// The type is `duration`.
  public static var keyType: KeyType { .duration }
  /// Appends the duration with its full precision.
  public func encodeKey(into encoder: inout KeyEncoder) { encoder.append(duration: self) }
  /// Decodes a duration.
  public static func decodeKey(from decoder: inout KeyDecoder) throws -> Duration { try decoder.decodeDuration() }
}

/// A URL is encoded as its string.
extension URL: KeyCodable {
  /// The type is `string`.
  public static var keyType: KeyType { .string }

  /// Appends the URL's string. *Throws* `.invalidKey` for a relative URL, whose string is incomplete.
  public func encodeKey(into encoder: inout KeyEncoder) throws {
    guard baseURL == nil else {
      throw DatabaseError(
        .invalidKey, "the URL \(relativeString) is relative to another; a key is made of its absoluteURL")
    }
    encoder.append(string: absoluteString)
  }

  /// Decodes a URL. *Throws* `.invalidKey` for a string that is not a URL.
  public static func decodeKey(from decoder: inout KeyDecoder) throws -> URL {
    let offset = decoder.offset
    let text = try decoder.decodeString()
    guard let url = URL(string: text), url.absoluteString == text else {
      throw decoder.invalid("a string that is not a URL", at: offset)
    }
    return url
  }
}

extension Bool: KeyCodable {
  /// The type is `bool`.
  public static var keyType: KeyType { .bool }
  /// Appends the Boolean.
  public func encodeKey(into encoder: inout KeyEncoder) { encoder.append(bool: self) }
  /// Decodes a Boolean.
  public static func decodeKey(from decoder: inout KeyDecoder) throws -> Bool { try decoder.decodeBool() }
}

extension Double: KeyCodable {
  /// The type is `double`.
  public static var keyType: KeyType { .double }
  /// Appends the double. *Throws* `.invalidKey` for a NaN.
  public func encodeKey(into encoder: inout KeyEncoder) throws { try encoder.append(double: self) }
  /// Decodes a double.
  public static func decodeKey(from decoder: inout KeyDecoder) throws -> Double { try decoder.decodeDouble() }
}

extension Float: KeyCodable {
  /// The type is `double`: a float has the encoding of the double that it equals.
  public static var keyType: KeyType { .double }
  /// Appends the float as a double. *Throws* `.invalidKey` for a NaN.
  public func encodeKey(into encoder: inout KeyEncoder) throws { try encoder.append(double: Double(self)) }
  /// Decodes a double. *Throws* `.invalidKey` if no float equals it.
  public static func decodeKey(from decoder: inout KeyDecoder) throws -> Float {
    let offset = decoder.offset
    let double = try decoder.decodeDouble()
    guard let float = Float(exactly: double) else {
      throw decoder.invalid("a double that is not representable as a float", at: offset)
    }
    return float
  }
}

/// Nil sorts first. Each level of nested optionals has its own byte, so all their values are distinct.
extension Optional: KeyCodable where Wrapped: KeyCodable {
  /// The type is `optional(...)`.
  public static var keyType: KeyType { .optional(Wrapped.keyType) }

  /// Appends nil, or a byte that marks a value, and the value.
  public func encodeKey(into encoder: inout KeyEncoder) throws {
    switch self {
    case .none: encoder.appendNil()
    case .some(let value):
      encoder.appendSome()
      try value.encodeKey(into: &encoder)
    }
  }

  /// Decodes nil or a value.
  public static func decodeKey(from decoder: inout KeyDecoder) throws -> Wrapped? {
    try decoder.decodeIsSome() ? .some(try Wrapped.decodeKey(from: &decoder)) : .none
  }
}
