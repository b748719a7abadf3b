/// Reads the readable parts of a damaged table, block by block, so that a damaged block loses only itself.
///
/// # How blocks are found
/// 1. The index names them, as far as it can be read: the root, or the root and its partitions.
/// 2. Between the blocks that it names, and everywhere if there is no index, blocks are found by their checksums
///    (`BlockScanner`). This needs the table's id: from the footer, from a caller that knows it (the MANIFEST), or
///    from a damaged footer with at most one wrong bit in the id.
///
/// A part that can't be read at all, including damaged sectors that the system reports, becomes an `UnreadablePart`
/// with the keys around it.
///
/// The object belongs to one thread and is used once.
final class TableSalvage {
  /// A function called with each entry. Key, trailer and value are valid during the call.
  typealias Visit = (ByteView, Trailer, ByteView) throws(EngineError) -> Void

  private let file: any File
  private let size: UInt64
  private var tableID: UInt64?
  /// The table, if its footer is intact.
  private var reader: TableReader?
  private var lastKey: [UInt8]?
  private var openParts = 0

  /// The parts that could not be read, ascending.
  private(set) var parts: [UnreadablePart] = []
  private(set) var entryCount: UInt64 = 0
  /// The properties, or nil if they can't be read.
  private(set) var properties: TableProperties?
  /// The range tombstones, as far as they can be read. They are known after `run`.
  private(set) var rangeTombstones = RangeTombstoneList.empty

  /// Prepares the salvage of a table. `tableID` is its id if the caller knows it.
  init(_ file: any File, number: FileNumber, tableID: UInt64?) throws(EngineError) {
    self.file = file
    size = try file.size()
    self.tableID = tableID
    let cache = BlockCache(capacity: 1 << 20)
    do throws(EngineError) {
      let table = try TableReader.open(file: file, number: number, fileSize: size, cache: cache)
      reader = table
      self.tableID = table.tableID
      properties = try table.properties()
    } catch { _ = try error.requireDamage() }
  }

  /// Visits every readable entry, in the order of the file. Throws errors of `visit`, and `.notReadableNow`.
  func run(_ visit: Visit) throws(EngineError) {
    let handles = try knownHandles()
    var position: UInt64 = 0
    for handle in handles {
      if handle.offset > position { try scan(position, handle.offset, visit) }
      try readBlock(handle, visit)
      position = max(position, handle.end ?? position)
    }
    let dataEnd = reader?.footer.dataSize ?? size
    if position < dataEnd { try scan(position, dataEnd, visit) }
    if let reader { try checkRest(reader) }
  }

  // MARK: - By the index

  /// Returns the data blocks that a readable index names, in the order of the file.
  private func knownHandles() throws(EngineError) -> [BlockHandle] {
    guard let reader, let root = try indexBlock(reader.footer.rootIndex, reader) else { return [] }
    var handles: [BlockHandle] = []
    for row in 0..<root.block.rowCount {
      let handle = root.block.entries.handle(row)
      if reader.footer.indexLevelCount == 1 {
        handles.append(handle)
      } else if let partition = try indexBlock(handle, reader) {
        for row in 0..<partition.block.rowCount { handles.append(partition.block.entries.handle(row)) }
      }
    }
    // The checksum protects the index, so a handle outside the data belongs to a table that was never written.
    return handles.filter { $0.end.map { $0 <= reader.footer.dataSize } ?? false }.sorted { $0.offset < $1.offset }
  }

  /// An index block in memory of its own.
  private struct LoadedIndex {
    let pin: BlockBytes
    let block: IndexBlock
  }

  private func indexBlock(_ handle: BlockHandle, _ reader: TableReader) throws(EngineError) -> LoadedIndex? {
    do throws(EngineError) {
      let bytes = try copy(handle, .index, reader)
      return LoadedIndex(pin: bytes, block: IndexBlock(validated: bytes.view(Int(handle.contentSize))))
    } catch {
      _ = try error.requireDamage()
      return nil
    }
  }

  private func copy(_ handle: BlockHandle, _ role: BlockRole, _ reader: TableReader) throws(EngineError) -> BlockBytes {
    let memory = try reader.read(handle, role)
    let bytes = BlockBytes(count: Int(handle.contentSize))
    unsafe bytes.base.copyMemory(from: memory.base, byteCount: bytes.count)
    return bytes
  }

  private func readBlock(_ handle: BlockHandle, _ visit: Visit) throws(EngineError) {
    guard let reader else { return }
    let bytes: BlockBytes
    do throws(EngineError) { bytes = try copy(handle, .data, reader) } catch {
      return add(handle.offset, handle.end ?? handle.offset, try error.requireDamage().message)
    }
    try emit(bytes.view(Int(handle.contentSize)), visit)
  }

  /// Checks the sections after the data, which have no entries but are reported as damaged if they can't be read.
  private func checkRest(_ reader: TableReader) throws(EngineError) {
    let footer = reader.footer
    func check(_ handle: BlockHandle, _ role: BlockRole, _ name: String) throws(EngineError) {
      do throws(EngineError) { _ = try reader.read(handle, role) } catch {
        let message = try error.requireDamage().message
        add(handle.offset, handle.end ?? handle.offset, "\(name): \(message)", holdsEntries: false)
      }
    }
    for page in 0..<TableFilter.pageCount(footer) {
      try check(TableFilter.handle(page, footer), .filter, "the filter")
    }
    try check(footer.rootIndex, .index, "the index")
    if footer.indexLevelCount == 2, let root = try indexBlock(footer.rootIndex, reader) {
      for row in 0..<root.block.rowCount { try check(root.block.entries.handle(row), .index, "the index") }
    }
    try check(footer.properties, .properties, "the properties")
    guard footer.rangeTombstones != .none else { return }
    do throws(EngineError) {
      if footer.hasTombstoneIndex { return try readParts(try reader.readTombstoneIndex(), reader) }
      rangeTombstones = try reader.readRangeTombstones()
    } catch { addTombstones(footer.rangeTombstones, try error.requireDamage()) }
  }

  /// Reads the parts of the range tombstones that can be read.
  private func readParts(_ index: RangeTombstoneIndex, _ reader: TableReader) throws(EngineError) {
    var all = RangeTombstoneListBuilder()
    for part in 0..<index.count {
      do throws(EngineError) { try reader.append(part, of: index, to: &all) } catch {
        addTombstones(index.handle(part), try error.requireDamage())
      }
    }
    rangeTombstones = RangeTombstoneList(all)
  }

  private func addTombstones(_ handle: BlockHandle, _ error: EngineError) {
    add(
      handle.offset, handle.end ?? handle.offset,
      "the range tombstones: \(error.message); entries that they deleted may be visible again")
  }

  // MARK: - By checksums

  private func scan(_ start: UInt64, _ end: UInt64, _ visit: Visit) throws(EngineError) {
    guard end > start, end - start <= UInt64(Int.max / 2) else { return }
    let bytes = try readRegion(start, end)
    let view = bytes.view(bytes.count)
    guard let tableID = tableID ?? guessTableID(view, start) else {
      return add(start, end, "no index, and no footer that tells the table's id")
    }
    self.tableID = tableID
    var scanner = BlockScanner(view, fileOffset: start, tableID: tableID)
    var position = 0
    while position < view.count {
      if let found = scanner.block(at: position) {
        if let content = found.content { try emit(content.view, visit) }
        if let other = found.other { takeTombstones(other.view) }
        position = found.end
        continue
      }
      guard let next = scanner.next(after: position) else { break }
      add(start + UInt64(position), start + UInt64(next.start), "no block that verifies")
      position = next.start
    }
    guard position < view.count else { return }
    // Without a readable footer, the last bytes of the file are its remains.
    let isFooter = reader == nil && end == size && view.count - position == TableFormat.footerSize
    add(
      start + UInt64(position), end, isFooter ? "the footer is damaged" : "no block that verifies",
      holdsEntries: !isFooter)
  }

  /// Takes range tombstones of a table without a footer: a block that verifies, has no rows, and can be decoded to its
  /// last byte as range tombstones after those of the blocks before it.
  private func takeTombstones(_ content: ByteView) {
    guard reader == nil else { return }
    guard let found = try? RangeTombstoneBlock.read(content, path: file.path, offset: 0), !found.isEmpty else { return }
    let count = rangeTombstones.count
    guard count == 0 || rangeTombstones.end(count - 1) <= found.start(0) else { return }
    var all = RangeTombstoneListBuilder()
    for list in [rangeTombstones, found] {
      for index in 0..<list.count { all.append(list.start(index), list.end(index), list.sequences(index)) }
    }
    rangeTombstones = RangeTombstoneList(all)
  }

  /// Returns the id in a damaged footer, or one that differs from it in one bit: the id with which the first block
  /// verifies.
  private func guessTableID(_ data: ByteView, _ start: UInt64) -> UInt64? {
    guard start == 0, data.count > TableFormat.footerSize else { return nil }
    let written = data.load(data.count - TableFormat.footerSize, as: UInt64.self)
    let head = data.slice(0, min(data.count, 256 << 10))
    for candidate in [written] + (0..<64).map({ written ^ (1 << UInt64($0)) }) {
      var scanner = BlockScanner(head, fileOffset: 0, tableID: candidate)
      if scanner.block(at: 0)?.content != nil { return candidate }
    }
    return nil
  }

  /// Returns the bytes of a region, with zeros where the system can't read them.
  private func readRegion(_ start: UInt64, _ end: UInt64) throws(EngineError) -> BlockBytes {
    let bytes = BlockBytes(count: Int(end - start))
    let all = unsafe UnsafeMutableRawBufferPointer(start: bytes.base, count: bytes.count)
    do throws(EngineError) {
      _ = try unsafe file.read(into: all, at: start)
    } catch {
      _ = try error.requireDamage()
      var offset = 0
      while offset < bytes.count {
        let piece = unsafe UnsafeMutableRawBufferPointer(rebasing: all[offset..<min(offset + 4096, bytes.count)])
        do throws(EngineError) { _ = try unsafe file.read(into: piece, at: start + UInt64(offset)) } catch {
          _ = try error.requireDamage()
        }
        offset += 4096
      }
    }
    return bytes
  }

  // MARK: - What was found

  private func emit(_ content: ByteView, _ visit: Visit) throws(EngineError) {
    let block = Block(validated: content)
    var key = ByteWriter(capacity: block.keySizeMaximum + 16)
    for row in 0..<block.rowCount {
      key.removeAll()
      block.appendKey(row, to: &key)
      if openParts < parts.count {
        for index in openParts..<parts.count { parts[index].keyAfter = key.bytes }
        openParts = parts.count
      }
      try visit(key.view, block.trailer(row), block.value(row))
      entryCount += 1
    }
    if block.rowCount > 0 { lastKey = key.bytes }
  }

  private func add(_ start: UInt64, _ end: UInt64, _ message: String, holdsEntries: Bool = true) {
    if let last = parts.last, last.end == start, last.holdsEntries == holdsEntries, openParts < parts.count {
      parts[parts.count - 1].end = end
      return
    }
    var part = UnreadablePart(start: start, end: end, message: message)
    part.holdsEntries = holdsEntries
    if holdsEntries { part.keyBefore = lastKey }
    parts.append(part)
    if !holdsEntries { openParts = parts.count }
  }
}
