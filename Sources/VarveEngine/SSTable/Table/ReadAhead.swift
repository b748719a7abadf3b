/// Reads the blocks of one table in order, in large pieces, into memory of its own: that of large blocks,
/// which does not tear the heap when it comes and goes with each table of a compaction.
///
/// # Safety
/// The only owner of its memory. What it hands out is valid until the next call.
///
/// # Concurrency
/// Belongs to one iterator.
@safe
final class ReadAhead {
  struct Options: Sendable {
    /// The bytes that are read at a time, unless a block is larger.
    var size = 512 * 1024
    /// Whether pages that were read are given back to the system, as a compaction's inputs may be.
    var dropsPages = false
    /// What the memory is charged to.
    var account: MemoryAccount?
  }

  private let table: TableReader
  private let limit: UInt64
  private let options: Options
  private let charge: MemoryCharge
  private var buffer: UnsafeMutableRawPointer
  private var capacity: Int
  private var start: UInt64 = 0
  private var count = 0
  private var unpacked: UnsafeMutableRawPointer
  private var unpackedCapacity: Int
  private var storedStart = 0
  private var storedCount = 0

  init(_ table: TableReader, _ options: Options) {
    self.table = table
    self.options = options
    limit = table.footer.dataSize
    capacity = max(64, min(options.size, Int(limit)))
    charge = MemoryCharge(capacity, to: options.account)
    unsafe buffer = BlockMemory.allocate(capacity, alignment: 64).take()
    unpackedCapacity = 0
    unsafe unpacked = BlockMemory.allocate(0).take()
  }

  deinit {
    unsafe BlockMemory.release(buffer, capacity)
    unsafe BlockMemory.release(unpacked, unpackedCapacity)
  }

  /// The block that was handed out last, as it is in the file, trailer included.
  var stored: ByteView {
    unsafe ByteView(base: UnsafeRawPointer(buffer) + storedStart, count: storedCount)
  }

  /// The validated content of a data block.
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
      reserve(size)
      unsafe try table.open(stored, handle, into: UnsafeMutableRawBufferPointer(start: unpacked, count: size))
      content = unsafe ByteView(base: UnsafeRawPointer(unpacked), count: size)
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
    if wanted > capacity || capacity > 2 * max(wanted, options.size) {
      unsafe BlockMemory.release(buffer, capacity)
      capacity = wanted
      unsafe buffer = BlockMemory.allocate(capacity, alignment: 64).take()
      charge.resize(to: capacity + unpackedCapacity)
    }
    count = unsafe try table.file.read(
      into: UnsafeMutableRawBufferPointer(start: buffer, count: wanted), at: start)
    guard count >= handle.fileSize else {
      count = 0
      throw .corruption("file ends inside a block", file: table.file.path, offset: handle.offset)
    }
  }

  private func reserve(_ size: Int) {
    if size <= unpackedCapacity, unpackedCapacity <= 2 * max(size, options.size) { return }
    unsafe BlockMemory.release(unpacked, unpackedCapacity)
    unpackedCapacity = size + size / 4
    unsafe unpacked = BlockMemory.allocate(unpackedCapacity, alignment: 64).take()
    charge.resize(to: capacity + unpackedCapacity)
  }
}
