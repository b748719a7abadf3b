/// A value of a row without its type, as tools print it.
indirect package enum UntypedValue: Hashable, Sendable {
  case null
  case bool(Bool)
  /// All integers except those above `Int128.max`.
  case integer(Int128)
  case unsigned(UInt128)
  case float(Float)
  case double(Double)
  case string(String)
  case bytes([UInt8])
  /// The text of a UUID.
  case uuid(String)
  /// The seconds since the beginning of 2001, UTC.
  case date(Double)
  case url(String)
  /// The text of a decimal number.
  case decimal(String)
  case array([UntypedValue])
  /// A record or a map: the fields that have a value, in their order.
  case record([Member])

  /// A name and a value.
  package struct Member: Hashable, Sendable {
    package let name: String
    package let value: UntypedValue

    package init(_ name: String, _ value: UntypedValue) {
      self.name = name
      self.value = value
    }
  }
}

/// Decoding for Foundation's coders: a value has the first kind as which it can be read.
extension UntypedValue: Decodable {
  package init(from decoder: any Decoder) throws {
    if let fields = try? decoder.container(keyedBy: PathKey.self) {
      let keys = fields.allKeys.sorted { $0.stringValue < $1.stringValue }
      self = .record(try keys.map { Member($0.stringValue, try fields.decode(UntypedValue.self, forKey: $0)) })
    } else if var elements = try? decoder.unkeyedContainer() {
      var values: [UntypedValue] = []
      while !elements.isAtEnd { values.append(try elements.decode(UntypedValue.self)) }
      self = .array(values)
    } else {
      self = try UntypedValue(decoder.singleValueContainer())
    }
  }

  private init(_ container: any SingleValueDecodingContainer) throws {
    if container.decodeNil() {
      self = .null
    } else if let value = try? container.decode(Bool.self) {
      self = .bool(value)
    } else if let value = try? container.decode(Int64.self) {
      self = .integer(Int128(value))
    } else if let value = try? container.decode(UInt64.self) {
      self = .integer(Int128(value))
    } else if let value = try? container.decode(Double.self) {
      self = .double(value)
    } else if let value = try? container.decode(String.self) {
      self = .string(value)
    } else {
      self = try UntypedValue(foundation: container)
    }
  }
}
