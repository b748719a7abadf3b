/// The binary form of an export: length-prefixed, for keys and values that would only become larger as JSON.
///
/// # Format
/// Numbers are little endian.
/// ```
/// magic      8 bytes "varveex1"
/// record     kind u8, then
///   1 entry    key size u32 | value size u32 | key | value
///   2 family   name size u32 | name: the family of the entries that follow; empty: the default one
///   3 options   size u32 | the options of that family, before its first entry: see `FamilyOptionsRecord`, as JSON;
///               only if one of them is not the default
///   0 end      entry count u64: the last record; a stream without it was truncated
/// ```
/// On disk: never change.
enum BinaryStream {
  static let magic = Array("varveex1".utf8)
  /// The maximum size of a key or value in bytes.
  static let sizeMaximum = 1 << 30

  enum Kind: UInt8 {
    case end = 0
    case entry = 1
    case family = 2
    case options = 3
  }

  static func entry(_ key: [UInt8], _ value: [UInt8]) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(9 + key.count + value.count)
    bytes.append(Kind.entry.rawValue)
    bytes += fixed(UInt32(key.count)) + fixed(UInt32(value.count))
    bytes += key
    bytes += value
    return bytes
  }

  static func family(_ name: String?) -> [UInt8] {
    let name = Array((name ?? "").utf8)
    return [Kind.family.rawValue] + fixed(UInt32(name.count)) + name
  }

  static func options(_ record: FamilyOptionsRecord) throws -> [UInt8] {
    let bytes = try JSONText.bytes(record)
    return [Kind.options.rawValue] + fixed(UInt32(bytes.count)) + bytes
  }

  static func end(count: UInt64) -> [UInt8] { [Kind.end.rawValue] + fixed(count) }

  private static func fixed(_ value: some FixedWidthInteger) -> [UInt8] {
    (0..<value.bitWidth / 8).map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) }
  }
}
