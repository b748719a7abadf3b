/// A type whose values can be keys: of a collection, of an index, as a part of a ``Compound``.
///
/// The encoding keeps the order: two encoded keys compare byte by byte as the values do by `<`. Strings, integers
/// of each width, `Double`, `Float`, `Decimal`, `Bool`, `Date`, `Duration`, `UUID`, `URL`, `Data`, optionals, ``Compound`` and
/// ``Descending`` are keys.
///
/// A type with a raw value that is a key needs nothing more than to say so:
///
/// ```swift
/// struct ISBN: RawRepresentable, Codable, Hashable, Sendable, KeyCodable { var rawValue: String }
/// enum Shelf: Int, KeyCodable { case fiction, science }
/// ```
///
/// Its keys sort by the raw value. Another type puts its key together from parts:
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
/// What a type must guarantee: equal values encode to equal bytes, what is decoded equals what was encoded, and
/// decoding reads exactly the parts that encoding appended, whatever part follows them (so it is with parts in a
/// fixed order; a count that varies needs an end of its own). The bytes are on disk: a type that changes them needs
/// another `keyType`.
public protocol KeyCodable: Hashable, Sendable {
  /// What is encoded, for the catalog.
  static var keyType: KeyType { get }

  /// Appends the key's parts.
  ///
  /// *Throws* `.invalidKey` if the value can't be a key. What was appended until then is of no use.
  func encodeKey(into encoder: inout KeyEncoder) throws

  /// Reads the parts that `encodeKey(into:)` appends, and no more.
  ///
  /// *Throws* `.invalidKey` if the bytes are no key, `.keyTypeDiffers` if they are one of another type.
  static func decodeKey(from decoder: inout KeyDecoder) throws -> Self
}

extension KeyCodable {
  /// The bytes of the key.
  ///
  /// *Throws* `.invalidKey` if the value can't be a key: a NaN, for instance.
  public func encoded() throws -> [UInt8] {
    var encoder = KeyEncoder(capacity: 32)
    try encodeKey(into: &encoder)
    return encoder.bytes
  }

  /// The key that `bytes` are, all of them.
  ///
  /// *Throws* `.invalidKey` if they are no key, `.keyTypeDiffers` if they are one of another type.
  public static func decoded(from bytes: [UInt8]) throws -> Self { try decoded(from: bytes.rawSpan) }

  /// The key that `bytes` are, all of them.
  ///
  /// *Throws* `.invalidKey` if they are no key, `.keyTypeDiffers` if they are one of another type.
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
  /// That of the raw value.
  public static var keyType: KeyType { RawValue.keyType }

  /// Appends the raw value.
  public func encodeKey(into encoder: inout KeyEncoder) throws { try rawValue.encodeKey(into: &encoder) }

  /// Reads the raw value. *Throws* `.invalidKey` if no value of this type has it.
  public static func decodeKey(from decoder: inout KeyDecoder) throws -> Self {
    let offset = decoder.offset
    let rawValue = try RawValue.decodeKey(from: &decoder)
    // An initialiser that changes the raw value would give one key two encodings.
    guard let value = Self(rawValue: rawValue), value.rawValue == rawValue else {
      throw decoder.invalid("\(Self.self) has no value for this raw value", at: offset)
    }
    return value
  }
}
