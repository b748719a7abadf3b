/// Integers of all widths have the same encoding: a width can change without a migration, provided that the numbers
/// fit.
extension KeyCodable where Self: FixedWidthInteger {
  /// The type is `int`.
  public static var keyType: KeyType { .integer }
  /// Appends the number.
  public func encodeKey(into encoder: inout KeyEncoder) throws { try encoder.append(integer: self) }
  /// Decodes a number. *Throws* `.invalidKey` if it does not fit.
  public static func decodeKey(from decoder: inout KeyDecoder) throws -> Self { try decoder.decodeInteger() }
}

extension Int: KeyCodable {}
extension Int8: KeyCodable {}
extension Int16: KeyCodable {}
extension Int32: KeyCodable {}
extension Int64: KeyCodable {}
extension Int128: KeyCodable {}
extension UInt: KeyCodable {}
extension UInt8: KeyCodable {}
extension UInt16: KeyCodable {}
extension UInt32: KeyCodable {}
extension UInt64: KeyCodable {}
extension UInt128: KeyCodable {}
