/// A setting: a value that an extension keeps about itself.
///
/// ```
///  byte 0        1 bool, 2 integer, 3 double, 4 string, 5 data
///  to the end    1 byte; 8 bytes big-endian; 8 bytes of the bit pattern, big-endian; UTF-8; the bytes
/// ```
/// The format is on disk and must never change.
public enum ExtensionSetting: Hashable, Sendable {
  /// A Boolean value.
  case bool(Bool)
  /// An integer.
  case integer(Int)
  /// A floating-point number.
  case double(Double)
  /// A string.
  case string(String)
  /// Bytes.
  case data([UInt8])

  var bytes: [UInt8] {
    switch self {
    case .bool(let value): [1, value ? 1 : 0]
    case .integer(let value): [2] + BigEndian.bytes(Int64(value))
    case .double(let value): [3] + BigEndian.bytes(value.bitPattern)
    case .string(let value): [4] + Array(value.utf8)
    case .data(let value): [5] + value
    }
  }

  package init(_ bytes: [UInt8]) throws {
    switch (bytes.first, bytes.count) {
    case (1, 2) where bytes[1] <= 1: self = .bool(bytes[1] == 1)
    case (2, 9): self = .integer(Int(BigEndian.number(bytes, at: 1, as: Int64.self) ?? 0))
    case (3, 9): self = .double(Double(bitPattern: BigEndian.number(bytes, at: 1, as: UInt64.self) ?? 0))
    case (4, _):
      guard let text = String(validating: bytes.dropFirst(), as: UTF8.self) else { throw Self.damaged }
      self = .string(text)
    case (5, _): self = .data(Array(bytes.dropFirst()))
    default: throw Self.damaged
    }
  }

  private static var damaged: DatabaseError { DatabaseError(.corruption, "a setting of an extension is damaged") }
}

extension ExtensionSetting {
  /// The value of a `bool`, or `nil` for every other kind.
  public var boolValue: Bool? { if case .bool(let value) = self { value } else { nil } }
  /// The value of an `integer`, or `nil` for every other kind.
  public var integerValue: Int? { if case .integer(let value) = self { value } else { nil } }
  /// The value of a `double`, or `nil` for every other kind.
  public var doubleValue: Double? { if case .double(let value) = self { value } else { nil } }
  /// The value of a `string`, or `nil` for every other kind.
  public var stringValue: String? { if case .string(let value) = self { value } else { nil } }
  /// The value of a `data`, or `nil` for every other kind.
  public var dataValue: [UInt8]? { if case .data(let value) = self { value } else { nil } }
}

extension ExtensionSetting: ExpressibleByBooleanLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
  ExpressibleByStringLiteral
{
  /// Creates a `bool`.
  public init(booleanLiteral value: Bool) { self = .bool(value) }
  /// Creates an `integer`.
  public init(integerLiteral value: Int) { self = .integer(value) }
  /// Creates a `double`.
  public init(floatLiteral value: Double) { self = .double(value) }
  /// Creates a `string`.
  public init(stringLiteral value: String) { self = .string(value) }
}
