/// The five bytes after every block of a table.
///
/// # Format
///
///     offset   bytes
///     0        1      codec (`Compression`)
///     1        4      checksum, little-endian
///
///     checksum = CRC-32C(stored content, codec byte) xor CRC32C.seed(table id, offset of the block)
///
/// The position enters by an exclusive or at the end, not by the CRC's start value: a block that is
/// copied whole to another position is verified as usual, and its checksum then moves by two exclusive
/// ors instead of a second pass over the content. Right bytes in a wrong position still don't verify.
enum BlockTrailer {
  /// On disk: never change.
  static let size = 5

  /// Appends the trailer of the `count` bytes that end `writer`.
  static func seal(
    _ codec: Compression, content: ByteView, tableID: UInt64, offset: UInt64, to writer: inout ByteWriter
  ) {
    var checksum = CRC32C.extend(0, content)
    writer.append(integer: codec.rawValue)
    checksum = CRC32C.extend(checksum, writer.view.dropFirst(writer.count - 1))
    writer.append(integer: checksum ^ CRC32C.seed(tableID, offset))
  }

  /// Whether `block`, stored content and trailer, belongs at this position.
  @inline(__always)
  static func verifies(_ block: ByteView, tableID: UInt64, offset: UInt64) -> Bool {
    checksum(block, tableID: tableID, offset: offset) == block.load(block.count &- 4, as: UInt32.self)
  }

  /// The checksum that `block`, stored content and trailer, has at this position.
  @inline(__always)
  static func checksum(_ block: ByteView, tableID: UInt64, offset: UInt64) -> UInt32 {
    CRC32C.extend(0, block.slice(0, block.count &- 4)) ^ CRC32C.seed(tableID, offset)
  }

  /// The checksum that a verified block has at another position.
  static func rebased(
    _ checksum: UInt32, from source: (tableID: UInt64, offset: UInt64), to target: (tableID: UInt64, offset: UInt64)
  ) -> UInt32 {
    checksum ^ CRC32C.seed(source.tableID, source.offset) ^ CRC32C.seed(target.tableID, target.offset)
  }
}
