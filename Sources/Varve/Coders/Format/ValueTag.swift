/// The first byte of every value, which determines its kind.
///
/// # Format of a row
/// The header of a row has the number of a shape. If it is not 0, the row consists of the values of the shape's fields,
/// one after the other. If it is 0, the row is one value. No bytes follow.
///
/// # Format of a value
///
///     00…3f  integer 0…63
///     40…7f  string of 0…63 bytes of UTF-8, which follow
///     80…8f  integer 64…4159: 64 + 256 × the low four bits + the next byte
///     90…9f  integer −16…−1: the low four bits − 16
///     a0…af  array of 0…15 values, which follow
///     b0…b7  integer of 1…8 bytes, two's complement
///     b8     integer of 8 bytes without a sign
///     b9     integer of 16 bytes, two's complement
///     ba     integer of 16 bytes without a sign
///     c0     absent: the record has the field in its shape only
///     c1     null
///     c2 c3  false, true
///     c4     float, 4 bytes
///     c5     double, 8 bytes
///     c6     double, as a float of 4 bytes that it equals in all bits
///     c7     string: varint size, UTF-8
///     c8     bytes: varint size, the bytes
///     c9     UUID, 16 bytes
///     ca     date: 8 bytes, a double, seconds since 2001
///     cb     URL: varint size, its string in UTF-8
///     cc     decimal: varint size, its text in ASCII, or "NaN"
///     d0     array: varint count, the values
///     d1     array of records of one shape: varint count, varint shape, the fields of each record in turn
///     d2     record: varint shape, the values of its fields
///     d3     map: varint count, then for each entry a string and a value; ascending by the bytes of the string
///
/// All numbers are little-endian. A varint has seven bits per byte, low bits first, with the top bit set in all bytes
/// but the last. Other tags are errors: a version that writes them marks it in the row's header. The format is stored
/// on disk and must never change.
///
/// Every value takes at least one byte, so every count is checked against the remaining bytes before memory is
/// allocated; a shape has at least one field, so this holds for `d1` too. Each integer, string and array has only one
/// encoding, the shortest, so that equal values have equal bytes. A record without fields is an empty map.
package enum ValueTag {
  package static let shortString: UInt8 = 0x40
  package static let mediumInteger: UInt8 = 0x80
  package static let negativeInteger: UInt8 = 0x90
  package static let shortArray: UInt8 = 0xa0
  package static let signed: UInt8 = 0xb0
  package static let unsigned64: UInt8 = 0xb8
  package static let signed128: UInt8 = 0xb9
  package static let unsigned128: UInt8 = 0xba
  package static let absent: UInt8 = 0xc0
  package static let null: UInt8 = 0xc1
  package static let no: UInt8 = 0xc2
  package static let yes: UInt8 = 0xc3
  package static let float: UInt8 = 0xc4
  package static let double: UInt8 = 0xc5
  package static let shortDouble: UInt8 = 0xc6
  package static let string: UInt8 = 0xc7
  package static let bytes: UInt8 = 0xc8
  package static let uuid: UInt8 = 0xc9
  package static let date: UInt8 = 0xca
  package static let url: UInt8 = 0xcb
  package static let decimal: UInt8 = 0xcc
  package static let array: UInt8 = 0xd0
  package static let uniformArray: UInt8 = 0xd1
  package static let record: UInt8 = 0xd2
  package static let map: UInt8 = 0xd3

  /// The limits below which strings, arrays and integers are encoded with the tag alone.
  static let shortStringSize = 64
  static let shortArrayCount = 16
  static let smallIntegers: Int64 = 64
  static let mediumIntegers: Int64 = 4_160
  static let negativeIntegers: Int64 = -16

  /// Returns the name of a value's kind for error messages.
  static func name(of tag: UInt8) -> String {
    switch tag {
    case 0..<shortString, mediumInteger..<shortArray, signed...unsigned128: "an integer"
    case shortString..<mediumInteger, string: "a string"
    case shortArray..<signed, array, uniformArray: "an array"
    case absent: "nothing"
    case null: "null"
    case no, yes: "a boolean"
    case float, double, shortDouble: "a floating-point number"
    case bytes: "bytes"
    case uuid: "a UUID"
    case date: "a date"
    case url: "a URL"
    case decimal: "a decimal number"
    case record, map: "a record"
    default: "a value of an unknown kind (\(tag))"
    }
  }
}
