/// The location of a block in its table's file.
///
/// # Format
/// 16 bytes, little-endian: offset (8), stored size (4), content size (4). The stored size is that of the compressed
/// content without the block trailer; the content size is that after decompression. All zeros mean that there is no
/// such block.
struct BlockHandle: Hashable, Sendable {
  let offset: UInt64
  let storedSize: UInt32
  let contentSize: UInt32

  /// The size of an encoded handle. On disk: never change.
  static let size = 16
  static let none = BlockHandle(offset: 0, storedSize: 0, contentSize: 0)

  @inline(__always)
  init(offset: UInt64, storedSize: UInt32, contentSize: UInt32) {
    self.offset = offset
    self.storedSize = storedSize
    self.contentSize = contentSize
  }

  /// Reads a handle from the first 16 bytes of `view`, which must have them.
  @inline(__always)
  init(_ view: ByteView) {
    offset = view.load(0, as: UInt64.self)
    storedSize = view.load(8, as: UInt32.self)
    contentSize = view.load(12, as: UInt32.self)
  }

  func append(to writer: inout ByteWriter) {
    writer.append(integer: offset)
    writer.append(integer: storedSize)
    writer.append(integer: contentSize)
  }

  /// The number of bytes of the file that the block takes, including its trailer.
  @inline(__always)
  var fileSize: Int { Int(storedSize) &+ BlockTrailer.size }

  /// The offset of the first byte after the block and its trailer, or nil if that is not a valid file offset.
  var end: UInt64? {
    let (end, overflow) = offset.addingReportingOverflow(UInt64(fileSize))
    return overflow ? nil : end
  }
}
