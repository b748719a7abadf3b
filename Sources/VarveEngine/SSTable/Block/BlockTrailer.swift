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
/// The location is combined with the checksum by an exclusive or at the end instead of being the CRC's start value. A
/// block that is copied whole to another location is verified as usual, and its checksum is then adapted by two
/// exclusive ors instead of a second pass over the content. Valid bytes at a wrong location still fail verification.
enum BlockTrailer {
  /// The size of a trailer. On disk: never change.
  static let size = 5

  /// Appends the trailer of `content`, the bytes that end `writer`.
  static func seal(
    _ codec: Compression, content: ByteView, tableID: UInt64, offset: UInt64, to writer: inout ByteWriter
  ) {
    seal(codec, contentChecksum: CRC32C.extend(0, content), tableID: tableID, offset: offset, to: &writer)
  }

  /// Appends the trailer of a content whose checksum, which began with 0, is known.
  static func seal(
    _ codec: Compression, contentChecksum: UInt32, tableID: UInt64, offset: UInt64, to writer: inout ByteWriter
  ) {
    writer.append(integer: codec.rawValue)
    let checksum = CRC32C.extend(contentChecksum, writer.view.dropFirst(writer.count - 1))
    writer.append(integer: checksum ^ CRC32C.seed(tableID, offset))
  }

  /// Returns whether `block`, stored content and trailer, verifies at this location.
  @inline(__always)
  static func verifies(_ block: ByteView, tableID: UInt64, offset: UInt64) -> Bool {
    checksum(block, tableID: tableID, offset: offset) == block.load(block.count &- 4, as: UInt32.self)
  }

  /// Returns the checksum that `block`, stored content and trailer, has at this location.
  @inline(__always)
  static func checksum(_ block: ByteView, tableID: UInt64, offset: UInt64) -> UInt32 {
    CRC32C.extend(0, block.slice(0, block.count &- 4)) ^ CRC32C.seed(tableID, offset)
  }

  /// Returns the checksum that a verified block has at another location.
  static func rebased(
    _ checksum: UInt32, from source: (tableID: UInt64, offset: UInt64), to target: (tableID: UInt64, offset: UInt64)
  ) -> UInt32 {
    checksum ^ CRC32C.seed(source.tableID, source.offset) ^ CRC32C.seed(target.tableID, target.offset)
  }
}
