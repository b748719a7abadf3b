import Foundation
import Varve
import VarveInspection

/// The type of the field that a column becomes in an object.
enum FieldType: String, CaseIterable {
  /// The type that is stored: an integer, a number, a text or bytes.
  case stored
  case int
  case double
  case bool
  case text
  case data
  case uuid
  /// Seconds since 1970.
  case date1970
  /// Seconds since 2001.
  case date2001
  /// A date as text.
  case iso8601
  /// A text that contains JSON: an array, a dictionary, or a value with fields.
  case json

  /// A description of the required value for errors.
  var expected: String {
    switch self {
    case .stored: "an integer, a number, a text in UTF-8 or bytes"
    case .int: "an integer"
    case .double: "a number that a double has exactly"
    case .bool: "0, 1, \"true\" or \"false\""
    case .text: "a text in UTF-8"
    case .data: "bytes"
    case .uuid: "a UUID as text or as 16 bytes"
    case .date1970: "a number of seconds since 1970"
    case .date2001: "a number of seconds since 2001"
    case .iso8601: "a date as text, like 2026-02-03 04:05:06.789"
    case .json: "a text in JSON"
    }
  }

  /// The key type for this field type, or `nil` if it can't be a key, and for `stored`, whose values determine it.
  var keyType: KeyType? {
    switch self {
    case .stored, .json: nil
    case .int: .integer
    case .double: .double
    case .bool: .bool
    case .text: .string
    case .data: .data
    case .uuid: .uuid
    case .date1970, .date2001, .iso8601: .date
    }
  }

  /// Returns a value as a field, or `nil` if it is of another kind.
  ///
  /// No caller passes NULL, which is an absent field.
  func field(_ value: ColumnValue) -> FieldValue? {
    switch self {
    case .stored: Self.stored(value)
    case .int: Self.integer(value)
    case .double: Self.double(value).map { .double($0) }
    case .bool: Self.bool(value).map { .bool($0) }
    case .text: if case .text(let text) = value { .text(text) } else { nil }
    case .data: if case .blob(let bytes) = value { .data(bytes) } else { nil }
    case .uuid: Self.uuid(value).map { .uuid($0) }
    case .date1970: Self.seconds(value).map { .date(Date(timeIntervalSince1970: $0)) }
    case .date2001: Self.seconds(value).map { .date(Date(timeIntervalSinceReferenceDate: $0)) }
    case .iso8601: if case .text(let text) = value { DateText.date(text).map { .date($0) } } else { nil }
    case .json: Self.json(value)
    }
  }

  private static func stored(_ value: ColumnValue) -> FieldValue? {
    switch value {
    case .null, .damagedText: nil
    case .integer(let value): .integer(Int128(value))
    case .real(let value): .double(value)
    case .text(let text): .text(text)
    case .blob(let bytes): .data(bytes)
    }
  }

  private static func integer(_ value: ColumnValue) -> FieldValue? {
    switch value {
    case .integer(let value): .integer(Int128(value))
    case .real(let value): Int64(exactly: value).map { .integer(Int128($0)) }
    case .null, .text, .damagedText, .blob: nil
    }
  }

  private static func double(_ value: ColumnValue) -> Double? {
    switch value {
    case .integer(let value): Double(exactly: value)
    case .real(let value): value
    case .null, .text, .damagedText, .blob: nil
    }
  }

  /// Returns the seconds of a value. The nearest double is as precise as the clock that wrote it.
  private static func seconds(_ value: ColumnValue) -> Double? {
    switch value {
    case .integer(let value): Double(value)
    case .real(let value): value.isFinite ? value : nil
    case .null, .text, .damagedText, .blob: nil
    }
  }

  private static func bool(_ value: ColumnValue) -> Bool? {
    switch value {
    case .integer(0): false
    case .integer(1): true
    case .text(let text):
      switch text.lowercased() {
      case "true", "1": true
      case "false", "0": false
      default: nil
      }
    case .null, .integer, .real, .damagedText, .blob: nil
    }
  }

  private static func uuid(_ value: ColumnValue) -> UUID? {
    switch value {
    case .text(let text): UUID(uuidString: text)
    case .blob(let bytes) where bytes.count == 16: UUID(uuidString: Self.uuidText(bytes))
    case .null, .integer, .real, .damagedText, .blob: nil
    }
  }

  private static func uuidText(_ bytes: [UInt8]) -> String {
    let digits = HexText.text(bytes)
    var text = ""
    for (index, digit) in digits.enumerated() {
      if [8, 12, 16, 20].contains(index) { text += "-" }
      text.append(digit)
    }
    return text
  }

  // MARK: - JSON

  private static func json(_ value: ColumnValue) -> FieldValue? {
    let text: [UInt8]
    switch value {
    case .text(let string): text = Array(string.utf8)
    case .blob(let bytes): text = bytes
    case .null, .integer, .real, .damagedText: return nil
    }
    return (try? JSONValue.parse(text)).flatMap(field)
  }

  private static func field(_ value: JSONValue) -> FieldValue? {
    switch value {
    case .null: return .null
    case .bool(let value): return .bool(value)
    case .string(let text): return .text(text)
    case .number(let text):
      if let integer = Int128(text) { return .integer(integer) }
      return Double(text).flatMap { $0.isFinite ? .double($0) : nil }
    case .array(let values):
      var fields: [FieldValue] = []
      for value in values {
        guard let field = field(value) else { return nil }
        fields.append(field)
      }
      return .array(fields)
    case .object(let members):
      var fields: [String: FieldValue] = [:]
      for member in members {
        guard let field = field(member.value), fields.updateValue(field, forKey: member.name) == nil else { return nil }
      }
      return .map(fields)
    }
  }
}

extension FieldValue {
  /// The key type of the value, or `nil` if it can't be a key.
  var keyType: KeyType? {
    switch self {
    case .integer: .integer
    case .double: .double
    case .bool: .bool
    case .text: .string
    case .data: .data
    case .uuid: .uuid
    case .date: .date
    case .null, .array, .map: nil
    }
  }

  /// Returns the value as an encoded key. Throws `.invalidKey` if it can't be one.
  func key() throws -> [UInt8] {
    var encoder = KeyEncoder(capacity: 40)
    switch self {
    case .integer(let value): try encoder.append(integer: value)
    case .double(let value): try encoder.append(double: value)
    case .bool(let value): encoder.append(bool: value)
    case .text(let text): encoder.append(string: text)
    case .data(let bytes): encoder.append(data: Data(bytes))
    case .uuid(let value): encoder.append(uuid: value)
    case .date(let date): try encoder.append(date: date)
    case .null, .array, .map: throw DatabaseError(.invalidKey, "an array or a map can't be a key")
    }
    return encoder.bytes
  }
}
