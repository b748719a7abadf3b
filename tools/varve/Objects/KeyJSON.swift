import Varve
import VarveInspection

#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// Converts keys to JSON that states the type of each part, so that the same bytes can be restored.
///
/// ```
///  "a"                                  a string
///  42                                   an integer, as long as every reader of JSON keeps it: below 2^53
///  {"int":"170141183460469231731687"}   any other integer
///  true  false  null                    a Boolean, an optional without a value
///  {"double":1.5}  {"double":"inf"}     a double
///  {"date":"2026-02-03T04:05:06.789Z"}  a date, as KeyText writes it: exact
///  {"uuid":"2D5C0F0B-..."}              a UUID
///  {"data":"c0ffee"}                    bytes, in hexadecimal digits
///  {"decimal":"12.5"}                   a decimal number
///  {"duration":"-1.5s"}                 a duration in seconds, with all its digits
///  {"descending":"a"}                   a part that sorts the other way
///  {"some":"a"}                         an optional with a value; of several parts the first stands inside
///  ["a",42,null]                        a key of several parts, or of none
/// ```
/// On disk: never change.
enum KeyJSON {
  /// The largest integer that every reader of JSON represents exactly.
  private static let plainMaximum: Int128 = (1 << 53) - 1

  // MARK: - Writing

  /// Returns the JSON of a key, or `nil` for bytes that are not a key.
  static func text(_ key: [UInt8]) -> String? {
    guard let parts = try? KeyPart.parts(of: key) else { return nil }
    return parts.count == 1 ? text(parts[0]) : JSONLine.array(parts.map(text))
  }

  private static func text(_ part: KeyPart) -> String {
    switch part {
    case .null: "null"
    case .some(let wrapped): object("some", text(wrapped))
    case .bool(let value): "\(value)"
    case .integer(let value) where value.magnitude <= plainMaximum.magnitude: "\(value)"
    case .integer(let value): object("int", "\"\(value)\"")
    case .largeInteger(let value): object("int", "\"\(value)\"")
    case .double(let value): object("double", value.isFinite ? "\(value)" : "\"\(value)\"")
    case .date: object("date", JSONLine.quoted(KeyText.text(of: part)))
    case .uuid(let value): object("uuid", "\"\(value.uuidString)\"")
    case .string(let value): JSONLine.quoted(value)
    case .data(let value): object("data", "\"\(HexText.text(Array(value)))\"")
    case .decimal(let value): object("decimal", "\"\(value)\"")
    case .duration: object("duration", JSONLine.quoted(KeyText.text(of: part)))
    case .descending(let value): object("descending", text(value))
    }
  }

  private static func object(_ name: String, _ json: String) -> String { "{\"\(name)\":\(json)}" }

  // MARK: - Reading

  /// Returns the key that JSON represents. Throws an error that describes the fault in the JSON.
  static func key(_ json: JSONValue) throws(RecordError) -> [UInt8] {
    var encoder = KeyEncoder(capacity: 40)
    if case .array(let parts) = json {
      for part in parts { try append(part, to: &encoder) }
    } else {
      try append(json, to: &encoder)
    }
    return encoder.bytes
  }

  private static func append(_ part: JSONValue, to encoder: inout KeyEncoder) throws(RecordError) {
    switch part {
    case .null: encoder.appendNil()
    case .bool(let value): encoder.append(bool: value)
    case .string(let value): encoder.append(string: value)
    case .number(let text): try append(integer: text, to: &encoder)
    case .array: throw RecordError("an array stands inside of the key")
    case .object(let members):
      guard members.count == 1 else { throw RecordError("a part of the key has not exactly one member") }
      try append(members[0].name, members[0].value, to: &encoder)
    }
  }

  private static func append(
    _ kind: String, _ value: JSONValue, to encoder: inout KeyEncoder
  ) throws(RecordError) {
    switch (kind, value) {
    case ("some", _):
      encoder.appendSome()
      try append(value, to: &encoder)
    case ("int", .string(let text)), ("int", .number(let text)): try append(integer: text, to: &encoder)
    case ("double", .string(let text)), ("double", .number(let text)):
      guard let double = Double(text), (try? encoder.append(double: double)) != nil else {
        throw RecordError("a double of the key is not a number: \(text)")
      }
    case ("date", .string(let text)):
      guard let key = try? KeyText.key(text, as: .date), let date = try? Date.decoded(from: key),
        (try? encoder.append(date: date)) != nil
      else { throw RecordError("a date of the key is none: \(text)") }
    case ("decimal", .string(let text)):
      guard let key = try? KeyText.key(text, as: .decimal), let decimal = try? Decimal.decoded(from: key),
        (try? encoder.append(decimal: decimal)) != nil
      else { throw RecordError("a decimal of the key is not a number: \(text)") }
    case ("duration", .string(let text)):
      guard let key = try? KeyText.key(text, as: .duration), let duration = try? Duration.decoded(from: key) else {
        throw RecordError("a duration of the key is not one like 1.5s: \(text)")
      }
      encoder.append(duration: duration)
    case ("descending", _):
      encoder.invert()
      defer { encoder.invert() }
      try append(value, to: &encoder)
    case ("uuid", .string(let text)):
      guard let uuid = UUID(uuidString: text) else { throw RecordError("a UUID of the key is none: \(text)") }
      encoder.append(uuid: uuid)
    case ("data", .string(let text)):
      guard let bytes = HexText.bytes(text) else {
        throw RecordError("data of the key is not an even number of hexadecimal digits")
      }
      encoder.append(data: Data(bytes))
    default: throw RecordError("a part of the key is of no kind: \(kind)")
    }
  }

  private static func append(integer text: String, to encoder: inout KeyEncoder) throws(RecordError) {
    if let value = Int128(text), (try? encoder.append(integer: value)) != nil { return }
    if let value = UInt128(text), (try? encoder.append(integer: value)) != nil { return }
    throw RecordError("\(text) is not an integer of at most 128 bits; a double is {\"double\":\(text)}")
  }
}
