/// Reads the blocks of one table in order, in large pieces, into memory of its own.
///
/// The memory is allocated as that of large blocks, which does not fragment the heap when it is allocated and freed
/// with each table of a compaction.
///
/// # Safety
/// The object is the only owner of its memory. The views that it returns are valid until the next call.
///
/// # Concurrency
/// The object belongs to one iterator.
@safe
final class ReadAhead {
  struct Options: Sendable {
    /// The number of bytes that are read at a time, unless a block is larger.
    var size = 512 * 1024
    /// Whether pages that were read are dropped from the page cache, as is right for a compaction's inputs.
    var dropsPages = false
    /// The account to which the memory is charged.
    var account: MemoryAccount?
  }

  private let table: TableReader
  private let limit: UInt64
  private let options: Options
  private let charge: MemoryCharge
  /// The bytes read from the file, and the block that was decompressed from them.
  private var buffer = Room()
  private var unpacked = Room()
  private var start: UInt64 = 0
  private var count = 0
  private var storedStart = 0
  private var storedCount = 0

  init(_ table: TableReader, _ options: Options) {
    self.table = table
    self.options = options
    limit = table.footer.dataSize
    charge = MemoryCharge(0, to: options.account)
  }

  /// The block that was returned last, as it is in the file, including its trailer.
  var stored: ByteView {
    unsafe ByteView(base: UnsafeRawPointer(buffer.base) + storedStart, count: storedCount)
  }

  /// Returns the validated content of a data block.
  func content(_ handle: BlockHandle) throws(EngineError) -> ByteView {
    try table.check(handle)
    guard let end = handle.end, end <= limit else {
      throw .corruption(
        "data block of \(handle.fileSize) bytes ends past the data, which ends at \(limit)", file: table.file.path,
        offset: handle.offset)
    }
    if handle.offset < start || end > start + UInt64(count) { try fill(handle) }
    storedStart = Int(handle.offset - start)
    storedCount = handle.fileSize
    try table.verify(stored, handle)
    let size = Int(handle.contentSize)
    let codec = try table.codec(stored, handle)
    let content: ByteView
    if codec == .none, size == Int(handle.storedSize) {
      content = stored.slice(0, size)
    } else {
      try reserve(size)
      unsafe try table.unpack(stored, handle, into: UnsafeMutableRawBufferPointer(start: unpacked.base, count: size))
      content = unsafe ByteView(base: UnsafeRawPointer(unpacked.base), count: size)
    }
    try table.validate(content, handle, .data)
    return content
  }

  private func fill(_ handle: BlockHandle) throws(EngineError) {
    if options.dropsPages, count > 0 { table.file.dropCachedPages(offset: start, size: UInt64(count)) }
    count = 0
    start = handle.offset
    let wanted = max(handle.fileSize, min(options.size, Int(limit - start)))
    // One huge value must not keep its memory for the rest of the table.
    if wanted > buffer.capacity || buffer.capacity > 2 * max(wanted, options.size) {
      try buffer.resize(to: wanted)
      charge.resize(to: buffer.capacity + unpacked.capacity)
    }
    count = unsafe try table.file.read(
      into: UnsafeMutableRawBufferPointer(start: buffer.base, count: wanted), at: start)
    guard count >= handle.fileSize else {
      count = 0
      throw .corruption("file ends inside a block", file: table.file.path, offset: handle.offset)
    }
  }

  private func reserve(_ size: Int) throws(EngineError) {
    if size <= unpacked.capacity, unpacked.capacity <= 2 * max(size, options.size) { return }
    // The room for the following blocks is not worth the memory of a large one.
    try unpacked.resize(to: size > Limits.largeSize ? size : size + size / 4)
    charge.resize(to: buffer.capacity + unpacked.capacity)
  }

  /// Resizable memory, which loses its contents when it is resized.
  ///
  /// # Safety
  /// The value is the only owner of its memory.
  @safe
  private struct Room: ~Copyable {
    private(set) var base = unsafe UnsafeMutableRawPointer(bitPattern: 64).unsafelyUnwrapped
    private(set) var capacity = 0

    /// Changes the size. The old memory is released first, because the system may not have both. Throws `.noMemory`,
    /// after which there is no memory.
    mutating func resize(to size: Int) throws(EngineError) {
      release()
      unsafe base = try BlockMemory.allocate(max(size, 64), alignment: 64).take()
      capacity = max(size, 64)
    }

    private mutating func release() {
      if capacity > 0 { unsafe BlockMemory.release(base, capacity) }
      capacity = 0
    }

    deinit { if capacity > 0 { unsafe BlockMemory.release(base, capacity) } }
  }
}
