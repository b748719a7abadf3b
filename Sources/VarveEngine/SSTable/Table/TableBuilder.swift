/// Builds a table from entries that are added in internal-key order.
///
/// A data block is closed before the row that would make it larger than `TableOptions.blockSize`, so no row is
/// encoded twice. Its index entry waits until the key after it is known, because the separator lies between the two.
/// A large value has a block of its own, which is written from the value at once, without a copy of it.
///
/// # Invariants
/// 1. Entries are added in order. An entry out of order is a mistake of the caller and stops the process, before it
///    makes a table in which keys can't be found.
/// 2. After an error the file is incomplete and the builder must not be used further.
///
/// # Concurrency
/// One builder belongs to one thread at a time.
final class TableBuilder {
  let number: FileNumber
  let tableID: UInt64
  let options: TableOptions

  var file: TableFileWriter
  var block: BlockBuilder
  var index: IndexBuilder
  var filter: BloomFilterBuilder
  var properties = TableProperties()
  /// The index entry of the last closed block, whose flags and separator need the next key.
  var pending: IndexEntry?
  /// The last key of the last closed block, and the trailer that was added last.
  var lastKey = ByteWriter(capacity: 256)
  var lastTrailer = Trailer(word: 0)
  private var separator = ByteWriter(capacity: 256)
  private var blockTombstoneCount: UInt32 = 0
  private var blockHasSeveralVersions = false
  private var blockContinues = false
  private var rangeTombstones = RangeTombstoneListBuilder()
  private var tombstoneSample = TombstoneSample()
  /// All range tombstones of the table, if its job has them in a list already.
  private var sharedTombstones: RangeTombstoneList?
  private var isFinished = false

  /// Creates a builder that writes to `file`, which must be empty. `tableID` is random and never reused.
  init(file: any File, number: FileNumber, tableID: UInt64, options: TableOptions) {
    precondition(options.blockSize >= 64 && options.blockSize <= 1 << 20, "a block size of 64 bytes to 1 MiB")
    precondition(options.indexPartitionSize >= 64 && options.indexPartitionSize <= 1 << 20, "a partition size")
    self.number = number
    self.tableID = tableID
    self.options = options
    self.file = TableFileWriter(
      file: file, tableID: tableID, bufferSize: options.bufferSize, startsWriteback: options.startsWriteback)
    block = BlockBuilder(capacity: options.blockSize)
    index = IndexBuilder(partitionSize: options.indexPartitionSize, compression: options.compression)
    filter = BloomFilterBuilder(bitsPerKey: max(options.bloomBitsPerKey, 1))
    properties.smallestSequence = .maximum
    properties.compression = options.compression.rawValue
    properties.blockSize = UInt64(options.blockSize)
    properties.bloomBitsPerKey = UInt64(options.bloomBitsPerKey)
    properties.origin = options.origin.rawValue
    properties.level = UInt64(options.level)
    properties.createdAt = options.createdAt
    properties.family = options.family
    properties.familyName = options.familyName.map { [UInt8]($0.utf8) }
    properties.familyOptions = options.familyOptions
  }

  /// The approximate size that the file would have if it were finished now.
  var estimatedFileSize: UInt64 {
    let waiting = block.estimatedSize + index.estimatedSize + filter.estimatedSize + TableFormat.footerSize
    return file.size + UInt64(waiting)
  }
  /// The size of the parts that grow with the table: the hashes of its keys, without unused capacity, and its index.
  var growingSize: Int { filter.byteCount + index.estimatedSize }

  /// The memory that the builder takes: buffers, the index and the filter's hashes.
  var memorySize: Int {
    file.memorySize + block.memorySize + index.estimatedSize + filter.memorySize + rangeTombstones.memorySize
      + tombstoneSample.memorySize
  }
  /// Returns whether the last entry added is of this key, in which case the table can't end here.
  @inline(__always)
  func endsWith(_ userKey: ByteView) -> Bool {
    block.isEmpty ? properties.entryCount > 0 && lastKey.view == userKey : block.lastKey == userKey
  }
  /// The number of entries added so far.
  var entryCount: Int { Int(properties.entryCount) + block.rowCount }

  // MARK: - Adding

  /// Adds an entry after all others.
  func add(_ userKey: ByteView, _ trailer: Trailer, _ value: ByteView) throws(EngineError) {
    guard BlockBuilder.canHold(keySize: userKey.count, valueSize: value.count) else {
      throw EngineError(
        .limitExceeded,
        "entry has a key of \(userKey.count) and a value of \(value.count) bytes; at most \(Limits.keySizeMaximum) and \(Limits.valueSizeMaximum) are allowed"
      )
    }
    var isNewKey = true
    if block.isEmpty {
      if properties.entryCount > 0 { isNewKey = isNew(userKey, trailer, after: lastKey.view) }
      try begin(userKey, value, isNewKey: isNewKey)
    } else {
      isNewKey = isNew(userKey, trailer, after: block.lastKey)
      if block.estimatedSize &+ userKey.count &+ value.count &+ 6 > options.blockSize {
        try closeBlock()
        try begin(userKey, value, isNewKey: isNewKey)
      } else if !isNewKey {
        blockHasSeveralVersions = true
      }
    }
    if isNewKey {
      properties.keyCount &+= 1
      if options.bloomBitsPerKey > 0 { filter.add(KeyHash.hash(userKey)) }
    }
    if trailer.isTombstone {
      blockTombstoneCount &+= 1
      tombstoneSample.add(userKey)
    }
    properties.keysSize &+= UInt64(truncatingIfNeeded: userKey.count)
    properties.valuesSize &+= UInt64(truncatingIfNeeded: value.count)
    lastTrailer = trailer
    addedNewKey = isNewKey
    if value.count > Limits.largeSize {
      block.addAlone(userKey, trailer, valueSize: value.count)
      try closeBlock(after: value)
    } else {
      block.add(userKey, trailer, value)
    }
  }

  /// Counts the last entry added among the hidden ones, with `size` bytes that are free at `sequence`.
  func countHidden(_ size: Int, freeAt sequence: SequenceNumber) {
    properties.hidden.add(UInt64(size), freeAt: sequence)
  }

  /// Adds a fragment of range tombstones after all others, independently of the entries (see
  /// `RangeTombstoneListBuilder.append`).
  func addRangeTombstone(_ start: ByteView, _ end: ByteView, _ sequences: some Collection<UInt64>) {
    rangeTombstones.append(start, end, sequences)
  }

  /// Uses a list that has all range tombstones of the table, without copying it.
  ///
  /// Requires that no range tombstone was added.
  func share(_ tombstones: RangeTombstoneList) {
    precondition(rangeTombstones.isEmpty, "a table has one list of range tombstones")
    sharedTombstones = tombstones
  }

  /// Whether the table would be empty.
  var isEmpty: Bool { entryCount == 0 && rangeTombstones.isEmpty && sharedTombstones?.isEmpty ?? true }

  /// Returns whether the key differs from the previous one. Stops the process if the order is wrong.
  @inline(__always)
  private func isNew(_ userKey: ByteView, _ trailer: Trailer, after last: ByteView) -> Bool {
    let order = last.compare(userKey)
    if order < 0 { return true }
    guard order == 0, trailer.word < lastTrailer.word else {
      fatalError("entries of a table must ascend: sort them by key, and newest first within a key")
    }
    return false
  }

  /// Whether the key of the last entry that was added differs from that of the entry before it.
  private(set) var addedNewKey = true

  /// Prepares for the first row of a block.
  private func begin(_ userKey: ByteView, _ value: ByteView, isNewKey: Bool) throws(EngineError) {
    // The buffers are large enough for values up to this size.
    if value.count > options.blockSize, value.count <= Limits.largeSize {
      try block.reserve(userKey.count, value.count)
    }
    blockContinues = !isNewKey
    emitPending(before: userKey, isNewKey: isNewKey)
  }

  // MARK: - Blocks

  /// Adds the entry of the last closed block to the index, now that the next key is known.
  func emitPending(before userKey: ByteView?, isNewKey: Bool) {
    guard let entry = pending else { return }
    pending = nil
    separator.removeAll()
    if isNewKey {
      if let userKey {
        Separator.append(between: lastKey.view, and: userKey, to: &separator)
      } else {
        separator.append(lastKey.view)
      }
      index.add(separator: separator.view, Trailer(word: 0), entry)
    } else {
      let flags = entry.flags | IndexEntry.continuesAfter
      index.add(separator: lastKey.view, lastTrailer, entry.with(offset: entry.handle.offset, flags: flags))
    }
  }

  /// Writes the block that is being built, if there is one. `value` is the one that is not in it.
  func closeBlock(after value: ByteView? = nil) throws(EngineError) {
    guard !block.isEmpty else { return }
    if properties.entryCount == 0 { properties.smallestKey = block.firstKey.bytes }
    let content = block.finish()
    let handle: BlockHandle
    if let value {
      if properties.entryCount == 0 { properties.smallestTrailer = lastTrailer }
      handle = try file.append(value: value, columns: content, options.compression)
    } else {
      if properties.entryCount == 0 { properties.smallestTrailer = Block(validated: content).trailer(0) }
      handle = try file.append(content: content, options.compression)
    }
    let flags =
      (blockHasSeveralVersions ? IndexEntry.severalVersions : 0) | (blockContinues ? IndexEntry.continuesBefore : 0)
    closed(
      IndexEntry(
        handle: handle, rowCount: UInt32(block.rowCount), tombstoneCount: blockTombstoneCount,
        smallestSequence: block.smallestSequence, largestSequence: block.largestSequence, flags: flags))
    lastKey.removeAll()
    lastKey.append(block.lastKey)
    block.removeAll()
    blockTombstoneCount = 0
    blockHasSeveralVersions = false
  }

  /// Counts a block that was written to the file.
  func closed(_ entry: IndexEntry) {
    properties.entryCount += UInt64(entry.rowCount)
    properties.tombstoneCount += UInt64(entry.tombstoneCount)
    properties.contentSize += UInt64(entry.handle.contentSize)
    properties.dataBlockCount += 1
    properties.smallestSequence = min(properties.smallestSequence, entry.smallestSequence)
    properties.largestSequence = max(properties.largestSequence, entry.largestSequence)
    pending = entry
  }

  // MARK: - The end

  /// Writes the rest of the table. Afterwards everything is in the file, and the caller syncs it.
  ///
  /// `shadows` estimates the bytes that the tombstones hide in older tables. It is called only if there are tombstones.
  func finish(
    _ shadows: (borrowing TombstoneSample, RangeTombstoneList) -> UInt64? = { _, _ in nil }
  ) throws(EngineError) -> TableSummary {
    guard !isFinished else { fatalError("a table is finished once: make a new builder") }
    isFinished = true
    try closeBlock()
    emitPending(before: nil, isNewKey: true)
    properties.largestKey = lastKey.bytes
    properties.largestTrailer = lastTrailer
    let tombstones = takeRangeTombstones()
    properties.include(tombstones)
    if properties.tombstoneCount > 0 || !tombstones.isEmpty {
      properties.shadowedSize = shadows(tombstoneSample, tombstones).map { min($0, TableProperties.shadowedMaximum) }
    }
    if properties.entryCount == 0, tombstones.isEmpty { properties.smallestSequence = .zero }
    var footer = TableFooter()
    footer.tableID = tableID
    footer.dataSize = file.size
    try TableFilter.write(&filter, to: &file, &footer)
    let (root, levelCount) = try index.finish(to: &file)
    footer.rootIndex = root
    footer.indexLevelCount = levelCount
    properties.indexPartitionCount = UInt64(index.partitionCount)
    if !tombstones.isEmpty {
      footer.requiredFeatures |= TableFormat.rangeTombstoneFeature
      let index = try RangeTombstoneIndex.write(tombstones) { (part) throws(EngineError) in
        try file.append(content: part, options.compression)
      }
      if let index {
        footer.requiredFeatures |= TableFormat.tombstoneIndexFeature
        footer.rangeTombstones = try file.append(content: index.view, options.compression)
      } else {
        var content = ByteWriter()
        RangeTombstoneBlock.append(tombstones, to: &content)
        footer.rangeTombstones = try file.append(content: content.view, options.compression)
      }
    }
    var content = ByteWriter()
    properties.append(to: &content)
    footer.properties = try file.append(content: content.view, .none)
    footer.fileSize = file.size + UInt64(TableFormat.footerSize)
    file.append(footer: footer)
    try file.flush()
    return TableSummary(fileSize: footer.fileSize, tableID: tableID, properties: properties)
  }

  private func takeRangeTombstones() -> RangeTombstoneList {
    if let sharedTombstones { return sharedTombstones }
    var taken = RangeTombstoneListBuilder()
    swap(&taken, &rangeTombstones)
    return RangeTombstoneList(taken)
  }
}

extension Trailer {
  /// Whether the entry deletes its key.
  @inline(__always)
  var isTombstone: Bool {
    rawKind == EntryKind.delete.rawValue || rawKind == EntryKind.singleDelete.rawValue
  }
}

/// The summary of a complete table, which a VersionEdit records.
struct TableSummary: Sendable {
  let fileSize: UInt64
  let tableID: UInt64
  let properties: TableProperties

  var entryCount: UInt64 { properties.entryCount }
  var tombstoneCount: UInt64 { properties.tombstoneCount }
  var rangeTombstoneCount: UInt64 { properties.rangeTombstoneCount }
  /// The number of bytes of keys and values, uncompressed.
  var rawSize: UInt64 { properties.keysSize + properties.valuesSize }
  var hidden: HiddenEntries { properties.hidden }
  var shadowedSize: UInt64? { properties.shadowedSize }
  /// The first user key, or empty if there are no entries.
  var smallestKey: [UInt8] { properties.smallestKey }
  var smallestTrailer: Trailer { properties.smallestTrailer }
  /// The last user key.
  var largestKey: [UInt8] { properties.largestKey }
  var largestTrailer: Trailer { properties.largestTrailer }
  var smallestSequence: SequenceNumber { properties.smallestSequence }
  var largestSequence: SequenceNumber { properties.largestSequence }
}
