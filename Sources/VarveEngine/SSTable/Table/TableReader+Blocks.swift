/// The kind of a block, which determines how it is validated and how much the cache values it.
enum BlockRole: Sendable {
  case data
  case index
  case filter
  case properties
  case rangeTombstones

  var priority: BlockPriority { self == .data ? .normal : .high }
}

/// Reading blocks: from a handle to a verified, decompressed and validated block.
extension TableReader {
  /// Returns a block through the cache. In memory its content is followed by its trailer, or by bytes without
  /// meaning.
  @inline(__always)
  func block(_ handle: BlockHandle, _ role: BlockRole) throws(EngineError) -> BlockPin {
    if let pin = cache.lookup(BlockKey(tableID: footer.tableID, offset: handle.offset)) {
      if role != .filter { Block.prefetch(pin.content) }
      return pin
    }
    return try readBlock(handle, role)
  }

  /// Returns a data block if the cache has it, for a caller that otherwise reads it by `block`.
  func cachedBlock(_ handle: BlockHandle) -> BlockPin? {
    cache.lookup(BlockKey(tableID: footer.tableID, offset: handle.offset), countsMiss: false)
  }

  /// Prefetches the memory that `cachedBlock` reads first.
  func prefetchLookup(_ handle: BlockHandle) {
    cache.prefetchLookup(BlockKey(tableID: footer.tableID, offset: handle.offset))
  }

  /// Prefetches what a search of a block reads first, if the cache has the block.
  func prefetchBlock(_ handle: BlockHandle) {
    if let pin = cachedBlock(handle) { Block.prefetch(pin.content) }
  }

  /// Prefetches the memory that the lookup of a key's filter reads first.
  func prefetchFilterLookup(_ hash: UInt64) {
    guard footer.filterLineCount > 0 else { return }
    let (page, line) = TableFilter.location(hash, footer)
    if let pinned = pinnedLine(page, line) { return pinned.prefetch(0) }
    prefetchLookup(TableFilter.handle(page, footer))
  }

  /// Prefetches the filter line of a key, if the cache has its page.
  func prefetchFilterLine(_ hash: UInt64) {
    guard footer.filterLineCount > 0 else { return }
    let (page, line) = TableFilter.location(hash, footer)
    // A pinned line was prefetched by `prefetchFilterLookup`.
    if pinnedLine(page, line) == nil, let pin = cachedBlock(TableFilter.handle(page, footer)) {
      pin.view.prefetch(line)
    }
  }

  @inline(never)
  private func readBlock(_ handle: BlockHandle, _ role: BlockRole) throws(EngineError) -> BlockPin {
    let memory = try read(handle, role)
    return cache.insert(
      BlockKey(tableID: footer.tableID, offset: handle.offset), memory, priority: role.priority)
  }

  /// Reads a block from the file, without the cache.
  func read(_ handle: BlockHandle, _ role: BlockRole) throws(EngineError) -> BlockMemory {
    try FileReadBan.check()
    try check(handle)
    if Int(handle.contentSize) > Limits.largeSize, handle.storedSize < handle.contentSize, role == .data,
      let margin = Compression.marginInPlace(packedSize: Int(handle.storedSize))
    {
      return try readInPlace(handle, margin: margin)
    }
    // Uncompressed contents are read directly to their final memory, with their trailer.
    let size = Int(handle.contentSize)
    let memory = try BlockMemory.allocate(size + BlockTrailer.size, alignment: role == .filter ? 64 : 16)
    let content = unsafe UnsafeMutableRawBufferPointer(start: memory.base, count: size)
    if handle.storedSize == handle.contentSize {
      unsafe try readStored(
        handle, into: UnsafeMutableRawBufferPointer(start: memory.base, count: handle.fileSize))
      unsafe try decode(memory.view.slice(0, handle.fileSize), handle, into: content)
    } else {
      let packed = try BlockMemory.allocate(handle.fileSize)
      unsafe try readStored(handle, into: packed.buffer)
      unsafe try decode(packed.view, handle, into: content)
    }
    try validate(memory.view.slice(0, size), handle, role)
    return memory
  }

  /// Reads a large compressed data block to the end of its own memory, and decompresses it there.
  private func readInPlace(_ handle: BlockHandle, margin: Int) throws(EngineError) -> BlockMemory {
    let size = Int(handle.contentSize)
    let memory = try BlockMemory.allocate(size + margin + BlockTrailer.size)
    let start = memory.count - handle.fileSize
    unsafe try readStored(
      handle, into: UnsafeMutableRawBufferPointer(start: memory.base + start, count: handle.fileSize))
    let stored = memory.view.dropFirst(start)
    let content = unsafe UnsafeMutableRawBufferPointer(start: memory.base, count: size)
    try verify(stored, handle)
    if try codec(stored, handle) == .lz4 {
      unsafe try unpack(stored, handle, into: content)
    } else {
      let packed = try BlockMemory.allocate(handle.fileSize)
      unsafe packed.base.copyMemory(from: stored.base, byteCount: stored.count)
      unsafe try unpack(packed.view, handle, into: content)
    }
    try validate(memory.view.slice(0, size), handle, .data)
    return memory.shortened(to: size + BlockTrailer.size)
  }

  /// Throws unless a handle can be one of this table. Memory is allocated according to the handle, but never more
  /// than the stored bytes can expand to.
  func check(_ handle: BlockHandle) throws(EngineError) {
    guard let end = handle.end, end <= footer.fileSize - UInt64(TableFormat.footerSize),
      handle.storedSize <= handle.contentSize, handle.contentSize <= TableFormat.contentSizeMaximum,
      UInt64(handle.contentSize) <= UInt64(handle.storedSize) * Compression.ratioMaximum
    else {
      throw .corruption(
        "block handle is out of range: \(handle.storedSize) stored bytes and \(handle.contentSize) of content in a file of \(footer.fileSize) bytes",
        file: file.path, offset: handle.offset)
    }
  }

  private func readStored(
    _ handle: BlockHandle, into buffer: UnsafeMutableRawBufferPointer
  ) throws(EngineError) {
    let count = unsafe try file.read(into: buffer, at: handle.offset)
    guard count == buffer.count else {
      throw .corruption(
        "file ends inside a block: \(count) of \(buffer.count) bytes were read", file: file.path, offset: handle.offset)
    }
  }

  /// Verifies a stored block and decompresses it. An uncompressed content that is already in `buffer` is not copied.
  func decode(
    _ stored: ByteView, _ handle: BlockHandle, into buffer: UnsafeMutableRawBufferPointer
  ) throws(EngineError) {
    try verify(stored, handle)
    try unsafe unpack(stored, handle, into: buffer)
  }

  /// Decompresses a verified block. An uncompressed content that is already in `buffer` is not copied.
  func unpack(
    _ stored: ByteView, _ handle: BlockHandle, into buffer: UnsafeMutableRawBufferPointer
  ) throws(EngineError) {
    let payload = stored.slice(0, Int(handle.storedSize))
    let codec = try codec(stored, handle)
    if unsafe UnsafeRawPointer(buffer.baseAddress) == payload.base {
      guard codec == .none else {
        throw .corruption(
          "block is marked as compressed by \(codec), but its stored size equals its content size", file: file.path,
          offset: handle.offset)
      }
      return
    }
    do throws(EngineError) {
      try unsafe codec.decompress(payload, into: buffer)
    } catch {
      throw placed(error, handle)
    }
  }

  /// Throws unless the checksum of a stored block is right.
  @inline(__always)
  func verify(_ stored: ByteView, _ handle: BlockHandle) throws(EngineError) {
    guard BlockTrailer.verifies(stored, tableID: footer.tableID, offset: handle.offset) else {
      throw checksumMismatch(stored, handle)
    }
  }

  @inline(never)
  private func checksumMismatch(_ stored: ByteView, _ handle: BlockHandle) -> EngineError {
    let found = stored.load(stored.count - 4, as: UInt32.self)
    let computed = BlockTrailer.checksum(stored, tableID: footer.tableID, offset: handle.offset)
    return .corruption(
      "block checksum mismatch: \(CRC32C.mismatch(stored: found, computed: computed))", file: file.path,
      offset: handle.offset)
  }

  func codec(_ stored: ByteView, _ handle: BlockHandle) throws(EngineError) -> Compression {
    guard let codec = Compression(rawValue: stored[Int(handle.storedSize)]) else {
      throw EngineError(
        .unsupportedFormat, "block uses codec \(stored[Int(handle.storedSize)]), which this version does not know",
        file: file.path,
        offset: handle.offset)
    }
    return codec
  }

  /// Throws unless a content can be read without further checks.
  func validate(_ content: ByteView, _ handle: BlockHandle, _ role: BlockRole) throws(EngineError) {
    do throws(EngineError) {
      switch role {
      case .data: try Block.validate(content)
      case .index:
        try IndexBlock.validate(content)
        try checkLocations(IndexBlock(validated: content), isRoot: handle == footer.rootIndex)
      case .filter, .properties, .rangeTombstones: break
      }
    } catch {
      throw placed(error, handle)
    }
  }

  /// Throws unless an index names blocks of the section to which it belongs.
  ///
  /// The cache identifies a block by its offset alone. If an index could name a block of another kind as a data
  /// block, the cache would return that block as validated, although it is not a data block.
  private func checkLocations(_ index: IndexBlock, isRoot: Bool) throws(EngineError) {
    let locations = index.entries.locations(index.rowCount)
    let namesPartitions = isRoot && footer.indexLevelCount == 2
    let start = namesPartitions ? footer.filterEnd : 0
    let end = namesPartitions ? footer.rootIndex.offset : footer.dataSize
    guard
      index.rowCount == 0
        || (locations.offset >= start && locations.offset <= end && locations.size <= end - locations.offset)
    else { throw .corruption("index names blocks outside the section that it belongs to") }
  }

  /// Returns the error of a part that does not know its location, with the file and offset added.
  private func placed(_ error: EngineError, _ handle: BlockHandle) -> EngineError {
    EngineError(error.code, error.message, cause: error.cause, file: file.path, offset: handle.offset)
  }
}

extension BlockPin {
  /// The content of a table's block, without the trailer or the meaningless bytes that follow it. Its size is that of
  /// the block that was validated, not that of another handle with the same offset.
  @inline(__always)
  var content: ByteView { view.slice(0, view.count &- BlockTrailer.size) }
}
