/// Writes a table's file sequentially through a buffer of its own.
///
/// Blocks are compressed directly into the buffer, which is written to the file in large pieces. A large value is not
/// copied to the buffer: it is compressed piece by piece from where it is (`LargeBlock`).
struct TableFileWriter: ~Copyable {
  private let file: any File
  private let tableID: UInt64
  private let bufferSize: Int
  private let startsWriteback: Bool
  private var buffer: ByteWriter
  private var flushedSize: UInt64 = 0

  init(file: any File, tableID: UInt64, bufferSize: Int, startsWriteback: Bool) {
    self.file = file
    self.tableID = tableID
    self.bufferSize = bufferSize
    self.startsWriteback = startsWriteback
    buffer = ByteWriter(capacity: bufferSize + bufferSize / 4, mapsLarge: true)
  }

  /// The memory of the buffer, in bytes.
  var memorySize: Int { buffer.capacity }

  /// The size of the file once the buffer is written.
  var size: UInt64 { flushedSize + UInt64(buffer.count) }

  /// Compresses a content if that is worthwhile, and appends it with its trailer.
  mutating func append(content: ByteView, _ compression: Compression) throws(EngineError) -> BlockHandle {
    try makeRoom(content.count)
    let offset = size
    let start = buffer.count
    let codec = buffer.appendPacked(content, compression)
    return try seal(codec, start: start, offset: offset, contentSize: UInt32(content.count))
  }

  /// Compresses a content that consists of a large value and the columns after it, if that is worthwhile, and appends
  /// it with its trailer.
  mutating func append(
    value: ByteView, columns: ByteView, _ compression: Compression
  ) throws(EngineError) -> BlockHandle {
    try flush()
    let offset = flushedSize
    let contentSize = value.count + columns.count
    let block = LargeBlock(file, at: offset)
    var codec = compression
    let isPacked = try compression.compress(value, then: columns) { (part) throws(EngineError) in
      try block.append(part)
    }
    if !isPacked {
      // What was written of the compressed content is shorter, and so it is overwritten completely.
      codec = .none
      block.restart()
      try block.append(value)
      try block.append(columns)
    }
    try block.flush()
    if startsWriteback { file.startWriteback(offset: offset, size: UInt64(block.size)) }
    flushedSize += UInt64(block.size)
    BlockTrailer.seal(codec, contentChecksum: block.checksum, tableID: tableID, offset: offset, to: &buffer)
    return BlockHandle(offset: offset, storedSize: UInt32(block.size), contentSize: UInt32(contentSize))
  }

  /// Appends a content that is already compressed.
  mutating func append(
    packed: ByteView, _ codec: Compression, contentSize: UInt32
  ) throws(EngineError) -> BlockHandle {
    try makeRoom(packed.count)
    let offset = size
    let start = buffer.count
    buffer.append(packed)
    return try seal(codec, start: start, offset: offset, contentSize: contentSize)
  }

  private mutating func seal(
    _ codec: Compression, start: Int, offset: UInt64, contentSize: UInt32
  ) throws(EngineError) -> BlockHandle {
    let stored = buffer.view.dropFirst(start)
    let handle = BlockHandle(offset: offset, storedSize: UInt32(stored.count), contentSize: contentSize)
    buffer.reserve(BlockTrailer.size)
    BlockTrailer.seal(codec, content: buffer.view.dropFirst(start), tableID: tableID, offset: offset, to: &buffer)
    try flushIfFull()
    return handle
  }

  /// Appends a verified block of another table. Content and codec are unchanged, and the checksum is rebased.
  mutating func append(
    stored block: ByteView, contentSize: UInt32, from source: (tableID: UInt64, offset: UInt64)
  ) throws(EngineError) -> BlockHandle {
    let covered = block.count - 4
    if block.count > Limits.largeSize {
      try flush()
      unsafe try file.write(block.slice(0, covered).buffer, at: flushedSize)
      if startsWriteback { file.startWriteback(offset: flushedSize, size: UInt64(covered)) }
      flushedSize += UInt64(covered)
    } else {
      try makeRoom(block.count)
      buffer.append(block.slice(0, covered))
    }
    let offset = size - UInt64(covered)
    buffer.append(
      integer: BlockTrailer.rebased(block.load(covered, as: UInt32.self), from: source, to: (tableID, offset)))
    try flushIfFull()
    return BlockHandle(
      offset: offset, storedSize: UInt32(block.count - BlockTrailer.size), contentSize: contentSize)
  }

  mutating func append(footer: TableFooter) { footer.append(to: &buffer) }

  /// Writes the buffer to the file if a large block would make the buffer grow. Throws `.noMemory` if the buffer
  /// can't grow.
  private mutating func makeRoom(_ size: Int) throws(EngineError) {
    guard buffer.count + size + BlockTrailer.size > buffer.capacity else { return }
    try flush()
    try buffer.reserveOrThrow(size + BlockTrailer.size)
  }

  private mutating func flushIfFull() throws(EngineError) {
    if buffer.count >= bufferSize { try flush() }
  }

  mutating func flush() throws(EngineError) {
    guard buffer.count > 0 else { return }
    unsafe try file.write(buffer.view.buffer, at: flushedSize)
    if startsWriteback { file.startWriteback(offset: flushedSize, size: UInt64(buffer.count)) }
    flushedSize += UInt64(buffer.count)
    buffer.removeAll()
    // One huge value must not keep its memory for the rest of the table.
    if buffer.capacity > bufferSize * 2 { buffer = ByteWriter(capacity: bufferSize + bufferSize / 4, mapsLarge: true) }
  }
}

extension ByteWriter {
  /// Appends a content, compressed if that saves an eighth. Returns the codec that was used.
  mutating func appendPacked(_ content: ByteView, _ compression: Compression) -> Compression {
    if compression.compress(content, appendingTo: &self) { return compression }
    append(content)
    return .none
  }
}
