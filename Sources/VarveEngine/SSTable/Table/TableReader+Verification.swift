/// The verification of a whole table: every checksum, the order, the counts, whether the index, the filter and the
/// properties agree with the entries, and that no byte of the file is outside a section.
///
/// It bypasses the cache, and throws the first fault with file and offset.
extension TableReader {
  func verify() throws(EngineError) {
    let size = try file.size()
    guard size == footer.fileSize else { throw fault("a file of \(size) bytes, not \(footer.fileSize)", size) }
    var check = TableVerification(self)
    try check.run()
  }

  func fault(_ message: String, _ offset: UInt64) -> EngineError {
    .corruption(message, file: file.path, offset: offset)
  }
}

/// One verification of one table.
private struct TableVerification: ~Copyable {
  let table: TableReader
  let data: ReadAhead
  /// The properties computed from the entries.
  var found = TableProperties()
  /// The offset of the first byte that is not accounted for yet.
  var position: UInt64 = 0
  var lastKey = ByteWriter()
  var key = ByteWriter()
  var lastTrailer = Trailer(word: 0)
  var lastSeparator = ByteWriter()
  var lastSeparatorTrailer = Trailer(word: 0)
  var hasSeparator = false
  /// The filter without the trailers of its pages.
  var filter = ByteWriter()
  /// Whether the last block's flags state that its last key continues.
  var isContinuing = false

  init(_ table: TableReader) {
    self.table = table
    data = ReadAhead(table, ReadAhead.Options())
    found.smallestSequence = .maximum
  }

  mutating func run() throws(EngineError) {
    let footer = table.footer
    try loadFilter()
    let rootMemory = try table.read(footer.rootIndex, .index)
    let root = IndexBlock(validated: rootMemory.view.slice(0, Int(footer.rootIndex.contentSize)))
    try checkOrder(root.separators, footer.rootIndex)
    if footer.indexLevelCount == 1 {
      try checkPartition(root, footer.rootIndex)
    } else {
      for row in 0..<root.rowCount { try checkPartition(entry: root.entries.entry(row), root, row) }
    }
    try advance(to: footer.dataSize, 0, "data")
    if isContinuing {
      throw table.fault("the last block claims to continue in a block that does not exist", footer.dataSize)
    }
    let filterSize = TableFilter.fileSize(lineCount: footer.filterLineCount)
    try advance(to: footer.filterOffset, filterSize, "the filter")
    if footer.indexLevelCount == 2 {
      for row in 0..<root.rowCount {
        let handle = root.entries.handle(row)
        try advance(to: handle.offset, UInt64(handle.fileSize), "an index partition")
      }
    }
    try advance(to: footer.rootIndex.offset, UInt64(footer.rootIndex.fileSize), "the root index")
    if footer.hasTombstoneIndex {
      let index = try table.readTombstoneIndex()
      for part in 0..<index.count {
        let handle = index.handle(part)
        try advance(to: handle.offset, UInt64(handle.fileSize), "a part of the range tombstones")
      }
    }
    if footer.rangeTombstones != .none {
      try advance(
        to: footer.rangeTombstones.offset, UInt64(footer.rangeTombstones.fileSize), "the range tombstones")
    }
    try advance(to: footer.properties.offset, UInt64(footer.properties.fileSize), "the properties")
    try advance(to: footer.fileSize - UInt64(TableFormat.footerSize), 0, "the footer")
    found.indexPartitionCount = footer.indexLevelCount == 2 ? UInt64(root.rowCount) : 0
    try checkProperties()
  }

  /// Throws unless a section begins where the previous one ended.
  private mutating func advance(to offset: UInt64, _ size: UInt64, _ name: String) throws(EngineError) {
    guard offset == position else { throw table.fault("\(name) at \(offset), expected at \(position)", offset) }
    position += size
  }

  // MARK: - Filter

  private mutating func loadFilter() throws(EngineError) {
    for page in 0..<TableFilter.pageCount(table.footer) {
      let handle = TableFilter.handle(page, table.footer)
      let memory = try table.read(handle, .filter)
      filter.append(memory.view.slice(0, Int(handle.contentSize)))
    }
  }

  private func checkFilter(_ key: ByteView, _ offset: UInt64) throws(EngineError) {
    let lineCount = Int(table.footer.filterLineCount)
    if lineCount == 0 { return }
    let hash = KeyHash.hash(key)
    let start = BloomFilter.lineOffset(hash, lineCount)
    let line = filter.view.slice(start, start + BloomFilter.lineSize)
    guard BloomFilter.mayContain(line: line, probeCount: Int(table.footer.filterProbeCount), hash) else {
      throw table.fault("the filter does not know the key \(key.printable)", offset)
    }
  }

  // MARK: - Index

  private mutating func checkPartition(
    entry: IndexEntry, _ root: IndexBlock, _ row: Int
  ) throws(EngineError) {
    let memory = try table.read(entry.handle, .index)
    let partition = IndexBlock(validated: memory.view.slice(0, Int(entry.handle.contentSize)))
    try checkOrder(partition.separators, entry.handle)
    let rowsBefore = found.entryCount
    let tombstonesBefore = found.tombstoneCount
    try checkPartition(partition, entry.handle)
    let last = partition.rowCount - 1
    key.removeAll()
    root.separators.appendKey(row, to: &key)
    guard last >= 0, partition.separators.compare(last, InternalKey(key.view, root.separators.trailer(row))) == 0,
      UInt64(entry.rowCount) == min(found.entryCount - rowsBefore, UInt64(UInt32.max)),
      UInt64(entry.tombstoneCount) == min(found.tombstoneCount - tombstonesBefore, UInt64(UInt32.max))
    else { throw table.fault("the root index contradicts a partition", entry.handle.offset) }
    for index in 0..<partition.rowCount {
      let below = partition.entries.entry(index)
      guard below.smallestSequence >= entry.smallestSequence, below.largestSequence <= entry.largestSequence else {
        throw table.fault("a partition holds sequences that the root does not know", entry.handle.offset)
      }
    }
  }

  private mutating func checkPartition(_ index: IndexBlock, _ handle: BlockHandle) throws(EngineError) {
    for row in 0..<index.rowCount {
      let entry = index.entries.entry(row)
      key.removeAll()
      index.separators.appendKey(row, to: &key)
      try checkBlock(entry, separator: InternalKey(key.view, index.separators.trailer(row)))
      lastSeparator.removeAll()
      index.separators.appendKey(row, to: &lastSeparator)
      lastSeparatorTrailer = index.separators.trailer(row)
      hasSeparator = true
    }
  }

  /// Throws unless the rows of a block ascend and its heads are those of its keys.
  private func checkOrder(_ block: Block, _ handle: BlockHandle) throws(EngineError) {
    var previous = ByteWriter()
    var current = ByteWriter()
    for row in 0..<block.rowCount {
      current.removeAll()
      block.appendKey(row, to: &current)
      let key = InternalKey(current.view, block.trailer(row))
      if row > 0, InternalKey(previous.view, block.trailer(row - 1)).compare(key) >= 0 {
        throw table.fault("rows out of order at row \(row)", handle.offset)
      }
      if row % Block.bundleSize == 0,
        block.head(row / Block.bundleSize) != current.view.head(from: block.prefixSize)
      {
        throw table.fault("a head that is not its key's at row \(row)", handle.offset)
      }
      swap(&previous, &current)
    }
  }

  // MARK: - Data

  private mutating func checkBlock(_ entry: IndexEntry, separator: InternalKey) throws(EngineError) {
    let offset = entry.handle.offset
    try advance(to: offset, UInt64(entry.handle.fileSize), "a data block")
    let block = Block(validated: try data.content(entry.handle))
    guard block.rowCount > 0 else { throw table.fault("a data block without rows", offset) }
    try checkOrder(block, entry.handle)
    guard block.compare(block.rowCount - 1, separator) <= 0,
      !hasSeparator || block.compare(0, InternalKey(lastSeparator.view, lastSeparatorTrailer)) > 0
    else { throw table.fault("a data block outside its separators", offset) }
    var tombstoneCount: UInt32 = 0
    var smallest = SequenceNumber.maximum
    var largest = SequenceNumber.zero
    var flags: UInt8 = 0
    for row in 0..<block.rowCount {
      let trailer = block.trailer(row)
      if trailer.isTombstone { tombstoneCount += 1 }
      smallest = min(smallest, trailer.sequence)
      largest = max(largest, trailer.sequence)
      flags |= try checkKey(block, row, offset)
    }
    let isContinued = entry.flags & IndexEntry.continuesAfter != 0
    let endsAtSeparator = block.compare(block.rowCount - 1, separator) == 0
    let isSame =
      Int(entry.rowCount) == block.rowCount && entry.tombstoneCount == tombstoneCount
      && entry.smallestSequence == smallest && entry.largestSequence == largest
    guard isSame, entry.flags & ~IndexEntry.continuesAfter == flags, !isContinued || endsAtSeparator,
      (flags & IndexEntry.continuesBefore != 0) == isContinuing
    else { throw table.fault("the index contradicts a data block", offset) }
    isContinuing = isContinued
    found.tombstoneCount += UInt64(tombstoneCount)
    found.smallestSequence = min(found.smallestSequence, smallest)
    found.largestSequence = max(found.largestSequence, largest)
    found.contentSize += UInt64(entry.handle.contentSize)
    found.dataBlockCount += 1
  }

  /// Counts an entry. Returns the flags that it contributes to its block.
  private mutating func checkKey(_ block: Block, _ row: Int, _ offset: UInt64) throws(EngineError) -> UInt8 {
    var current = ByteWriter(capacity: block.keySizeMaximum)
    block.appendKey(row, to: &current)
    let isFirst = found.entryCount == 0
    let isNew = isFirst || current.view != lastKey.view
    if isNew {
      found.keyCount += 1
      try checkFilter(current.view, offset)
    }
    if isFirst {
      found.smallestKey = current.bytes
      found.smallestTrailer = block.trailer(row)
    }
    found.entryCount += 1
    found.keysSize += UInt64(current.count)
    found.valuesSize += UInt64(block.value(row).count)
    lastTrailer = block.trailer(row)
    swap(&lastKey, &current)
    return isNew ? 0 : (row == 0 ? IndexEntry.continuesBefore : IndexEntry.severalVersions)
  }

  // MARK: - Properties

  private mutating func checkProperties() throws(EngineError) {
    found.largestKey = lastKey.bytes
    found.largestTrailer = lastTrailer
    let tombstones =
      table.footer.rangeTombstones == .none ? RangeTombstoneList.empty : try table.readRangeTombstones()
    found.include(tombstones)
    if found.entryCount == 0, tombstones.isEmpty { found.smallestSequence = .zero }
    let stored = try table.properties()
    // Properties that the entries don't determine are taken from the stored ones.
    found.copiedBlockCount = stored.copiedBlockCount
    found.compression = stored.compression
    found.blockSize = stored.blockSize
    found.bloomBitsPerKey = stored.bloomBitsPerKey
    found.origin = stored.origin
    found.level = stored.level
    found.createdAt = stored.createdAt
    found.family = stored.family
    found.familyName = stored.familyName
    found.familyOptions = stored.familyOptions
    found.hidden = stored.hidden
    found.shadowedSize = stored.shadowedSize
    guard found == stored else {
      throw table.fault("the properties contradict the entries", table.footer.properties.offset)
    }
  }
}
