internal import Foundation

/// The types that have their own encoding, instead of that of their `Codable` conformance. Containers check for them
/// before they let a value encode or decode itself.
enum SpecialType {
  case none
  case string, bool, int, double, float
  case int8, int16, int32, int64, int128
  case uint, uint8, uint16, uint32, uint64, uint128
  case uuid, date, data, bytes, url, decimal

  /// Returns the special type of a type by comparing addresses, with the most frequent types first.
  @inline(__always)
  static func of<T>(_ type: T.Type) -> SpecialType {
    if type == UUID.self { return .uuid }
    if type == Date.self { return .date }
    if type == String.self { return .string }
    if type == Int.self { return .int }
    if type == Double.self { return .double }
    if type == Bool.self { return .bool }
    if type == Data.self { return .data }
    if type == URL.self { return .url }
    if type == [UInt8].self { return .bytes }
    if type == Float.self { return .float }
    if type == Decimal.self { return .decimal }
    return ofInteger(type)
  }

  private static func ofInteger<T>(_ type: T.Type) -> SpecialType {
    if type == UInt8.self { return .uint8 }
    if type == Int64.self { return .int64 }
    if type == UInt64.self { return .uint64 }
    if type == Int32.self { return .int32 }
    if type == UInt32.self { return .uint32 }
    if type == UInt.self { return .uint }
    if type == Int16.self { return .int16 }
    if type == UInt16.self { return .uint16 }
    if type == Int8.self { return .int8 }
    if type == Int128.self { return .int128 }
    if type == UInt128.self { return .uint128 }
    return .none
  }

  /// Returns a value as the type that it was found to be.
  ///
  /// # Safety
  /// `T` and `Other` are the same type: `of` compared them.
  @inline(__always)
  static func cast<T, Other>(_ value: T, as type: Other.Type) -> Other {
    assert(T.self == Other.self, "a cast to another type")
    return unsafe unsafeBitCast(value, to: Other.self)
  }
}

extension CodingBuffer {
  /// Writes a value of a special type for which `fits` returned true.
  @inline(__always)
  mutating func write<T>(special value: T, _ type: SpecialType) {
    switch type {
    case .uuid: write(SpecialType.cast(value, as: UUID.self))
    case .date: write(SpecialType.cast(value, as: Date.self))
    case .string: write(SpecialType.cast(value, as: String.self))
    case .int: write(integer: Int64(SpecialType.cast(value, as: Int.self)))
    case .double: write(SpecialType.cast(value, as: Double.self))
    case .bool: write(SpecialType.cast(value, as: Bool.self))
    default: writeRare(value, type)
    }
  }

  private mutating func writeRare<T>(_ value: T, _ type: SpecialType) {
    switch type {
    case .data: write(SpecialType.cast(value, as: Data.self))
    case .bytes: write(SpecialType.cast(value, as: [UInt8].self))
    case .url: write(SpecialType.cast(value, as: URL.self))
    case .decimal: write(SpecialType.cast(value, as: Decimal.self))
    case .float: write(SpecialType.cast(value, as: Float.self))
    case .int8: write(integer: Int64(SpecialType.cast(value, as: Int8.self)))
    case .int16: write(integer: Int64(SpecialType.cast(value, as: Int16.self)))
    case .int32: write(integer: Int64(SpecialType.cast(value, as: Int32.self)))
    case .int64: write(integer: SpecialType.cast(value, as: Int64.self))
    case .int128: write(wide: SpecialType.cast(value, as: Int128.self))
    case .uint: write(unsigned: UInt64(SpecialType.cast(value, as: UInt.self)))
    case .uint8: write(integer: Int64(SpecialType.cast(value, as: UInt8.self)))
    case .uint16: write(integer: Int64(SpecialType.cast(value, as: UInt16.self)))
    case .uint32: write(integer: Int64(SpecialType.cast(value, as: UInt32.self)))
    case .uint64: write(unsigned: SpecialType.cast(value, as: UInt64.self))
    case .uint128: write(wideUnsigned: SpecialType.cast(value, as: UInt128.self))
    case .none, .uuid, .date, .string, .int, .double, .bool: break
    }
  }
}

extension SpecialType {
  /// Returns whether the value has the special encoding. A URL that is relative to another one does not.
  @inline(__always)
  func fits<T>(_ value: T) -> Bool {
    switch self {
    case .none: false
    case .url: SpecialType.cast(value, as: URL.self).baseURL == nil
    default: true
    }
  }
}
