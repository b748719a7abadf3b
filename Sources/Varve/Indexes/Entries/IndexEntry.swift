/// Encodes the keys of index entries, which consist of a value, the key of its row, and the size of the latter
/// (`IndexExtension`).
enum IndexEntry {
  /// The size from which on its encoding takes three bytes.
  private static var longSize: Int { 240 }
  /// The maximum size of a row's key: no byte of the size may be 0xff, which ends the entries of a value.
  static var rowKeySizeMaximum: Int { 0xfeff }
  /// The maximum number of bytes that encode the size.
  static var sizeSizeMaximum: Int { 3 }

  /// Appends the row's key and its size to a value.
  @inline(__always)
  static func append(_ rowKey: [UInt8], to bytes: inout [UInt8]) {
    bytes.append(contentsOf: rowKey)
    let size = rowKey.count
    if size < longSize { return bytes.append(UInt8(truncatingIfNeeded: size)) }
    bytes.append(UInt8(truncatingIfNeeded: size >> 8))
    bytes.append(UInt8(truncatingIfNeeded: size))
    bytes.append(UInt8(longSize))
  }

  /// Returns the range of the row's key in an entry's key. Throws `.corruption`.
  @inline(__always)
  static func rowKey(in key: RawSpan) throws -> Range<Int> {
    var end = key.byteCount - 1
    guard end >= 0 else { throw damaged(key) }
    var size = Int(Varint.byte(key, end))
    if size == longSize, end >= 2 {
      end -= 2
      size = Int(Varint.byte(key, end)) << 8 | Int(Varint.byte(key, end + 1))
    }
    guard size <= end, size > 0 else { throw damaged(key) }
    return (end - size)..<end
  }

  @inline(never)
  static func damaged(_ key: RawSpan) -> DatabaseError {
    DatabaseError(.corruption, "an index entry of \(key.byteCount) bytes ends with an invalid size of a row's key")
  }
}
