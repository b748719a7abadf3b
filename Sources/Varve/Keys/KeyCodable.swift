/// A type whose values can be keys of a collection or of an index, or parts of a ``Compound``.
///
/// The encoding preserves the order: two encoded keys compare byte by byte as the values do by `<`. Strings, integers
/// of each width, `Double`, `Float`, `Decimal`, `Bool`, `Date`, `Duration`, `UUID`, `URL`, `Data`, optionals,
/// ``Compound`` and ``Descending`` are keys.
///
/// A type whose raw value is a key only has to declare its conformance:
///
/// ```swift
/// struct ISBN: RawRepresentable, Codable, Hashable, Sendable, KeyCodable { var rawValue: String }
/// enum Shelf: Int, KeyCodable { case fiction, science }
/// ```
///
/// Its keys are ordered by the raw value. Another type composes its key of parts:
///
/// ```swift
/// struct Location: KeyCodable {
///   var country: String
///   var number: Int
///   static var keyType: KeyType { .compound(.string, .integer) }
///   func encodeKey(into encoder: inout KeyEncoder) throws {
///     try encoder.encode(country)
///     try encoder.encode(number)
///   }
///   static func decodeKey(from decoder: inout KeyDecoder) throws -> Location {
///     Location(country: try decoder.decode(), number: try decoder.decode())
///   }
/// }
/// ```
///
/// A type has to guarantee the following: equal values have equal encodings, decoding returns a value that equals the
/// encoded one, and decoding reads exactly the parts that encoding has appended, whatever part follows them. The latter
/// holds for parts in a fixed order; a variable number of parts needs a terminator. The encoding is stored on disk: a
/// type that changes it needs another `keyType`.
public protocol KeyCodable: Hashable, Sendable {
  /// The type of the encoding, for the catalog.
  static var keyType: KeyType { get }

  /// Appends the key's parts.
  ///
  /// *Throws* `.invalidKey` if the value cannot be a key. The encoder must then be discarded.
  func encodeKey(into encoder: inout KeyEncoder) throws

  /// Decodes the parts that `encodeKey(into:)` appends, and no more.
  ///
  /// *Throws* `.invalidKey` if the bytes are not a key, and `.keyTypeDiffers` if they are a key of another type.
  static func decodeKey(from decoder: inout KeyDecoder) throws -> Self
}

extension KeyCodable {
  /// Returns the encoding of the key.
  ///
  /// *Throws* `.invalidKey` if the value cannot be a key, such as a NaN.
  public func encoded() throws -> [UInt8] {
    var encoder = KeyEncoder(capacity: 32)
    try encodeKey(into: &encoder)
    return encoder.bytes
  }

  /// Decodes a key from bytes, all of which have to belong to it.
  ///
  /// *Throws* `.invalidKey` if they are not a key, and `.keyTypeDiffers` if they are a key of another type.
  public static func decoded(from bytes: [UInt8]) throws -> Self { try decoded(from: bytes.rawSpan) }

  /// Decodes a key from bytes, all of which have to belong to it.
  ///
  /// *Throws* `.invalidKey` if they are not a key, and `.keyTypeDiffers` if they are a key of another type.
  public static func decoded(from bytes: RawSpan) throws -> Self {
    var decoder = KeyDecoder(bytes)
    do {
      let key = try decodeKey(from: &decoder)
      guard decoder.isAtEnd else { throw decoder.invalid("bytes follow the key") }
      return key
    } catch let error as DatabaseError where error.key == nil {
      throw DatabaseError(
        error.code, error.message, collection: error.collection, key: KeyText.text(of: bytes), cause: error.cause)
    }
  }
}

extension KeyCodable where Self: RawRepresentable, RawValue: KeyCodable {
  /// The type of the raw value.
  public static var keyType: KeyType { RawValue.keyType }

  /// Appends the raw value.
  public func encodeKey(into encoder: inout KeyEncoder) throws { try rawValue.encodeKey(into: &encoder) }

  /// Decodes the raw value. *Throws* `.invalidKey` if this type has no value for it.
  public static func decodeKey(from decoder: inout KeyDecoder) throws -> Self {
    let offset = decoder.offset
    let rawValue = try RawValue.decodeKey(from: &decoder)
    // An initializer that changes the raw value would give the same key two encodings.
    guard let value = Self(rawValue: rawValue), value.rawValue == rawValue else {
      throw decoder.invalid("\(Self.self) has no value for this raw value", at: offset)
    }
    return value
  }
}
