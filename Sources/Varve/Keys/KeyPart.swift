public import Foundation

/// A part of a key that was decoded without knowledge of the key's type, as tools show it.
public enum KeyPart: Hashable, Sendable {
  /// An optional without a value.
  case null
  /// An optional with a value. If the value has several parts, only the first is contained.
  indirect case some(KeyPart)
  /// A Boolean.
  case bool(Bool)
  /// An integer of any width.
  case integer(Int128)
  /// An integer above `Int128.max`.
  case largeInteger(UInt128)
  /// A double or float.
  case double(Double)
  /// A date.
  case date(Date)
  /// A UUID.
  case uuid(UUID)
  /// A string, in normal form C.
  case string(String)
  /// Bytes.
  case data(Data)
  /// A decimal number.
  case decimal(Decimal)
  /// A duration.
  case duration(Duration)
  /// A part in descending order.
  indirect case descending(KeyPart)

  /// The maximum number of nested optionals. No type of a program is close to it; without a limit, damaged bytes could
  /// result in a value that is nested too deeply to be freed.
  static let nestingMaximum = 64

  /// Decodes the parts of a key of any type.
  ///
  /// *Throws* `.invalidKey` if the bytes are not a key.
  public static func parts(of bytes: [UInt8]) throws -> [KeyPart] { try parts(of: bytes.rawSpan) }

  static func parts(of bytes: RawSpan) throws -> [KeyPart] {
    var decoder = KeyDecoder(bytes)
    var parts: [KeyPart] = []
    while !decoder.isAtEnd { parts.append(try part(&decoder)) }
    return parts
  }

  /// Decodes the parts at the beginning of bytes that may continue with something else, each with the offset of its
  /// end.
  package static func leadingParts(of bytes: [UInt8]) -> [(part: KeyPart, end: Int)] {
    var decoder = KeyDecoder(bytes.rawSpan)
    var parts: [(part: KeyPart, end: Int)] = []
    while !decoder.isAtEnd, let part = try? part(&decoder) { parts.append((part, decoder.offset)) }
    return parts
  }

  private static func part(_ decoder: inout KeyDecoder) throws -> KeyPart {
    if let tag = decoder.nextTag, tag >= KeyTag.descendingMinimum {
      let rest = decoder.invertedRest
      var inner = KeyDecoder(inverted: rest.rawSpan, from: decoder.position, endSize: decoder.invertedEndSize)
      let part = try ascending(&inner)
      decoder.skip(inner.offset)
      return .descending(part)
    }
    return try ascending(&decoder)
  }

  private static func ascending(_ decoder: inout KeyDecoder) throws -> KeyPart {
    var nesting = 0
    while decoder.nextTag == KeyTag.some {
      guard nesting < nestingMaximum else { throw decoder.invalid("optionals nested too deeply") }
      nesting += 1
      _ = try decoder.decodeIsSome()
    }
    var part = try value(&decoder)
    for _ in 0..<nesting { part = .some(part) }
    return part
  }

  private static func value(_ decoder: inout KeyDecoder) throws -> KeyPart {
    switch decoder.nextTag {
    case KeyTag.null:
      _ = try decoder.decodeIsSome()
      return .null
    case KeyTag.data: return .data(try decoder.decodeData())
    case KeyTag.string: return .string(try decoder.decodeString())
    case KeyTag.integers.upperBound:
      let value = try decoder.decodeInteger(as: UInt128.self)
      return Int128(exactly: value).map { .integer($0) } ?? .largeInteger(value)
    case .some(KeyTag.integers): return .integer(try decoder.decodeInteger())
    case KeyTag.double: return .double(try decoder.decodeDouble())
    case KeyTag.date: return .date(try decoder.decodeDate())
    case KeyTag.uuid: return .uuid(try decoder.decodeUUID())
    case KeyTag.decimal: return .decimal(try decoder.decodeDecimal())
    case KeyTag.duration: return .duration(try decoder.decodeDuration())
    case KeyTag.false, KeyTag.true: return .bool(try decoder.decodeBool())
    default: throw decoder.invalid("no part begins here")
    }
  }
}
