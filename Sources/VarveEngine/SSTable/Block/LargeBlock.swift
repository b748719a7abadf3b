/// The content of a large block, which is written to a table's file in parts as they come.
///
/// Small parts are gathered in a buffer. The content can be written again from its start.
///
/// # Concurrency
/// The object belongs to one writer.
final class LargeBlock {
  private let file: any File
  private let offset: UInt64
  private var buffer = ByteWriter(capacity: LargeBlock.bufferSize)
  /// The number of bytes appended.
  private(set) var size = 0
  /// The checksum of the bytes appended, which began with 0.
  private(set) var checksum: UInt32 = 0

  private static let bufferSize = 64 << 10

  /// Creates a content that begins at `offset` of the file.
  init(_ file: any File, at offset: UInt64) {
    self.file = file
    self.offset = offset
  }

  func append(_ part: ByteView) throws(EngineError) {
    checksum = CRC32C.extend(checksum, part)
    if buffer.count + part.count > Self.bufferSize { try flush() }
    if part.count > Self.bufferSize {
      try unsafe file.write(part.buffer, at: offset + UInt64(size))
    } else {
      buffer.append(part)
    }
    size += part.count
  }

  /// Writes what is gathered.
  func flush() throws(EngineError) {
    guard buffer.count > 0 else { return }
    try unsafe file.write(buffer.view.buffer, at: offset + UInt64(size - buffer.count))
    buffer.removeAll()
  }

  /// Begins the content again: the next parts overwrite what was written.
  func restart() {
    buffer.removeAll()
    size = 0
    checksum = 0
  }
}
