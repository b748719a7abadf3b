internal import Foundation

extension SpecialType {
  /// Returns whether a value with this tag is read directly as the type. Otherwise the type decodes itself: bytes from
  /// an array of numbers, or a relative URL from its parts.
  @inline(__always)
  func reads(_ tag: UInt8) -> Bool {
    switch self {
    case .none: return false
    case .data, .bytes, .url, .decimal:
      let isArray = tag >= ValueTag.shortArray && tag < ValueTag.signed
      return !isArray && tag < ValueTag.array
    default: return true
    }
  }
}

extension ByteSource {
  /// Reads a value of a special type, which is `T`.
  @inline(__always)
  func special<T>(_ offset: inout Int, _ special: SpecialType, as type: T.Type) throws(ReadFailure) -> T {
    switch special {
    case .uuid: SpecialType.cast(try uuid(&offset), as: T.self)
    case .date: SpecialType.cast(try date(&offset), as: T.self)
    case .string: SpecialType.cast(try string(&offset), as: T.self)
    case .int: SpecialType.cast(try integer(&offset, as: Int.self), as: T.self)
    case .double: SpecialType.cast(try double(&offset), as: T.self)
    case .bool: SpecialType.cast(try bool(&offset), as: T.self)
    default: try rare(&offset, special, as: type)
    }
  }

  private func rare<T>(_ offset: inout Int, _ special: SpecialType, as type: T.Type) throws(ReadFailure) -> T {
    switch special {
    case .data: SpecialType.cast(try data(&offset), as: T.self)
    case .bytes: SpecialType.cast(try bytes(&offset), as: T.self)
    case .url: SpecialType.cast(try url(&offset), as: T.self)
    case .decimal: SpecialType.cast(try decimal(&offset), as: T.self)
    case .float: SpecialType.cast(try float(&offset), as: T.self)
    case .int8: SpecialType.cast(try integer(&offset, as: Int8.self), as: T.self)
    case .int16: SpecialType.cast(try integer(&offset, as: Int16.self), as: T.self)
    case .int32: SpecialType.cast(try integer(&offset, as: Int32.self), as: T.self)
    case .int64: SpecialType.cast(try integer(&offset, as: Int64.self), as: T.self)
    case .int128: SpecialType.cast(try integer(&offset, as: Int128.self), as: T.self)
    case .uint: SpecialType.cast(try integer(&offset, as: UInt.self), as: T.self)
    case .uint8: SpecialType.cast(try integer(&offset, as: UInt8.self), as: T.self)
    case .uint16: SpecialType.cast(try integer(&offset, as: UInt16.self), as: T.self)
    case .uint32: SpecialType.cast(try integer(&offset, as: UInt32.self), as: T.self)
    case .uint64: SpecialType.cast(try integer(&offset, as: UInt64.self), as: T.self)
    case .uint128: SpecialType.cast(try integer(&offset, as: UInt128.self), as: T.self)
    case .none, .uuid, .date, .string, .int, .double, .bool: throw .mismatch
    }
  }
}
