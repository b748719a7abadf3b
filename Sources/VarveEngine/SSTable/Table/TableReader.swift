/// The purpose of a read.
enum ReadPurpose: Sendable {
  /// A user's read, through the block cache.
  case user
  /// A read of a compaction or a verification, in large pieces into a buffer of its own, bypassing the cache.
  case compaction
}

/// An open table.
///
/// Opening reads only the footer. Index, filter and data are read through the block cache when they are needed, and
/// each is verified and validated once.
///
/// # Invariants
/// 1. No bytes of the file make a read stop the process or access memory outside a block: a fault is an error with
///    file and offset.
///
/// # Concurrency
/// Immutable; safe from any thread.
final class TableReader: Sendable {
  let file: any File
  let number: FileNumber
  let footer: TableFooter
  let cache: BlockCache
  private let charge: MemoryCharge
  private let pinnedRoot = PinnedRoot()
  private let pinnedFilter = PinnedFilter()
  private let tombstones = LoadedObject<RangeTombstoneList>()
  private let tombstoneIndex = LoadedObject<RangeTombstoneIndex>()

  /// The approximate memory of an open table apart from the blocks in the cache: this object, its file, its entries in
  /// lists, and the columns of its root index, which are 424 bytes beside the block.
  static let memorySize = 1_024

  private init(
    file: any File, number: FileNumber, footer: TableFooter, cache: BlockCache, account: MemoryAccount?
  ) {
    self.file = file
    self.number = number
    self.footer = footer
    self.cache = cache
    charge = MemoryCharge(TableReader.memorySize + Self.tombstoneSize(footer), to: account)
  }

  /// Returns the approximate memory of the range tombstones, or of their index: keys, and a position for each.
  private static func tombstoneSize(_ footer: TableFooter) -> Int { 3 * Int(footer.rangeTombstones.contentSize) }

  /// The memory that the table keeps as long as it is open: itself, and its root index, which is charged to the cache
  /// and can't be evicted.
  var footprint: Int {
    TableReader.memorySize + Int(footer.rootIndex.contentSize) + Self.tombstoneSize(footer)
  }

  deinit {
    pinnedRoot.release()
    pinnedFilter.release(self)
    tombstones.release()
    tombstoneIndex.release()
  }

  /// Opens a table of a known size. If the caller passes a table id, it must agree. `account` is charged for the
  /// table as long as it is open.
  static func open(
    file: any File, number: FileNumber, fileSize: UInt64, cache: BlockCache, tableID: UInt64? = nil,
    account: MemoryAccount? = nil
  ) throws(EngineError) -> TableReader {
    let size = UInt64(TableFormat.footerSize)
    guard fileSize >= size, fileSize <= UInt64(Int64.max) else {
      throw .corruption("table file has \(fileSize) bytes; expected at least \(size)", file: file.path)
    }
    let memory = try BlockMemory.allocate(TableFormat.footerSize)
    let count = unsafe try file.read(into: memory.buffer, at: fileSize - size)
    let footer = try TableFooter(memory.view.slice(0, count), fileSize: fileSize, path: file.path)
    if let tableID, footer.tableID != tableID {
      throw .corruption(
        "wrong table: id mismatch (expected \(String(tableID, radix: 16)), found \(String(footer.tableID, radix: 16)))",
        file: file.path)
    }
    return TableReader(file: file, number: number, footer: footer, cache: cache, account: account)
  }

  var tableID: UInt64 { footer.tableID }
  var fileSize: UInt64 { footer.fileSize }

  // MARK: - Get

  /// Returns the newest entry of a key that is visible at a sequence number, or nil if the table has none. `hash` is
  /// `KeyHash.hash(userKey)`, computed once for all tables.
  func get(
    _ userKey: ByteView, hash: UInt64, at sequence: SequenceNumber
  ) throws(EngineError) -> TableHit? {
    if try !mayContain(hash) { return nil }
    let target = Trailer(seek: sequence)
    guard let handle = try rootHandle(userKey, target) else { return nil }
    if !hasPartitions { return try get(userKey, target, handle) }
    guard let handle = try partitionHandle(userKey, target, handle) else { return nil }
    return try get(userKey, target, handle)
  }

  /// Whether the root index names partitions, which name the data blocks.
  @inline(__always)
  var hasPartitions: Bool { footer.indexLevelCount == 2 }

  /// Returns what the root index names for a key: a partition, or the data block. Returns nil if the key is after the
  /// table.
  @inline(__always)
  func rootHandle(_ userKey: ByteView, _ target: Trailer) throws(EngineError) -> BlockHandle? {
    try root().handle(userKey, target)
  }

  /// Returns the data block that a partition names for a key, or nil if the key is after the partition.
  @inline(__always)
  func partitionHandle(
    _ userKey: ByteView, _ target: Trailer, _ handle: BlockHandle
  ) throws(EngineError) -> BlockHandle? {
    let pin = try block(handle, .index)
    return IndexBlock(validated: pin.content).handle(userKey, target)
  }

  /// Returns the newest visible entry of a key from a data block. If the key is in the table, its first visible entry
  /// is in this block, because the separator is at or after the target and the previous one is not.
  @inline(__always)
  func get(
    _ userKey: ByteView, _ target: Trailer, _ handle: BlockHandle
  ) throws(EngineError) -> TableHit? {
    let pin = try block(handle, .data)
    let rows = Block(validated: pin.content)
    guard let row = rows.row(of: userKey, target) else { return nil }
    return TableHit(trailer: rows.trailer(row), value: rows.value(row), pin: pin)
  }

  /// Returns whether the filter allows that a key with this hash is in the table.
  @inline(__always)
  func mayContain(_ hash: UInt64) throws(EngineError) -> Bool {
    if footer.filterLineCount == 0 { return true }
    let (page, line) = TableFilter.location(hash, footer)
    let probeCount = Int(footer.filterProbeCount)
    if let pinned = pinnedLine(page, line) { return BloomFilter.mayContain(line: pinned, probeCount: probeCount, hash) }
    return try mayContain(hash, page, line, probeCount)
  }

  /// Returns whether the filter allows that a key with this hash is in the table, if the filter's page is not pinned.
  @inline(never)
  private func mayContain(_ hash: UInt64, _ page: Int, _ line: Int, _ probeCount: Int) throws(EngineError) -> Bool {
    let pin = try block(TableFilter.handle(page, footer), .filter)
    let found = BloomFilter.mayContain(
      line: pin.view.slice(line, line &+ BloomFilter.lineSize), probeCount: probeCount, hash)
    pinnedFilter.keep(page, pin, self)
    return found
  }

  /// Returns a line of the filter if its page is pinned. The line is valid while the table is open.
  @inline(__always)
  func pinnedLine(_ page: Int, _ line: Int) -> ByteView? {
    guard let base = unsafe pinnedFilter.page(page) else { return nil }
    return unsafe ByteView(base: base + line, count: BloomFilter.lineSize)
  }

  // MARK: - Iterators

  /// Returns an iterator over all entries. Blocks whose entries are all newer than `visible`, or none of whose
  /// entries is newer than `above`, are skipped. For compactions, `buffers` describes the buffers into which they
  /// read.
  func makeIterator(
    _ purpose: ReadPurpose, visible: SequenceNumber = .maximum, above: SequenceNumber = .zero,
    buffers: ReadAhead.Options = .init()
  ) -> TableIterator {
    TableIterator(self, purpose, visible: visible, above: above, buffers: buffers)
  }

  // MARK: - Parts

  /// Returns the root index, valid while the table is open.
  @inline(__always)
  func root() throws(EngineError) -> IndexBlock { try pinnedRoot.block(self) }

  /// Returns the range tombstones. The first caller reads them; if they have an index, each caller does.
  func rangeTombstones() throws(EngineError) -> RangeTombstoneList {
    if footer.rangeTombstones == .none { return .empty }
    if footer.hasTombstoneIndex { return try readRangeTombstones() }
    return unsafe try tombstones.get(readRangeTombstones).takeUnretainedValue()
  }

  /// Returns the range tombstones of a range of keys around `key`.
  func tombstones(around key: ByteView) throws(EngineError) -> TombstonePart {
    guard footer.hasTombstoneIndex else { return TombstonePart(list: try rangeTombstones()) }
    let index = unsafe try tombstoneIndex.get(readTombstoneIndex).takeUnretainedValue()
    let part = index.firstPart(endingAfter: key)
    guard part < index.count, index.start(part) <= key else {
      return TombstonePart(
        list: .empty, lower: part > 0 ? index.end(part - 1) : nil, upper: part < index.count ? index.start(part) : nil,
        index: index)
    }
    let handle = index.handle(part)
    let pin = try block(handle, .rangeTombstones)
    let list = try RangeTombstoneBlock.read(
      pin.view.slice(0, Int(handle.contentSize)), path: file.path, offset: handle.offset)
    return TombstonePart(list: list, lower: index.start(part), upper: index.end(part), index: index)
  }

  /// Returns the newest range tombstone over a key that is visible at a sequence number, or zero if there is none.
  @inline(never)
  func tombstone(covering userKey: ByteView, at sequence: SequenceNumber) throws(EngineError) -> SequenceNumber {
    if footer.rangeTombstones == .none { return .zero }
    if footer.hasTombstoneIndex { return try indexedTombstone(covering: userKey, at: sequence) }
    return unsafe try tombstones.get(readRangeTombstones)._withUnsafeGuaranteedRef {
      $0.sequence(covering: userKey, at: sequence)
    }
  }

  private func indexedTombstone(
    covering userKey: ByteView, at sequence: SequenceNumber
  ) throws(EngineError) -> SequenceNumber {
    let handle = unsafe try tombstoneIndex.get(readTombstoneIndex)._withUnsafeGuaranteedRef { index -> BlockHandle? in
      let part = index.firstPart(endingAfter: userKey)
      return part < index.count && index.start(part) <= userKey ? index.handle(part) : nil
    }
    guard let handle else { return .zero }
    let pin = try block(handle, .rangeTombstones)
    return try RangeTombstoneBlock.sequence(
      covering: userKey, at: sequence, in: pin.view.slice(0, Int(handle.contentSize)), path: file.path,
      offset: handle.offset)
  }

  /// Reads all range tombstones, without the cache.
  func readRangeTombstones() throws(EngineError) -> RangeTombstoneList {
    guard footer.hasTombstoneIndex else { return try readTombstones(footer.rangeTombstones) }
    let index = try readTombstoneIndex()
    var all = RangeTombstoneListBuilder()
    for part in 0..<index.count { try append(part, of: index, to: &all) }
    return RangeTombstoneList(all)
  }

  /// Reads a part of the range tombstones, without the cache, and appends it to those of the parts before it.
  func append(
    _ part: Int, of index: RangeTombstoneIndex, to all: inout RangeTombstoneListBuilder
  ) throws(EngineError) {
    let handle = index.handle(part)
    let list = try readTombstones(handle)
    guard !list.isEmpty, list.start(0) == index.start(part), list.end(list.count - 1) == index.end(part) else {
      throw .corruption("range tombstones are not those that the index names", file: file.path, offset: handle.offset)
    }
    for index in 0..<list.count { all.append(list.start(index), list.end(index), list.sequences(index)) }
  }

  private func readTombstones(_ handle: BlockHandle) throws(EngineError) -> RangeTombstoneList {
    let memory = try read(handle, .rangeTombstones)
    return try RangeTombstoneBlock.read(
      memory.view.slice(0, Int(handle.contentSize)), path: file.path, offset: handle.offset)
  }

  func readTombstoneIndex() throws(EngineError) -> RangeTombstoneIndex {
    let handle = footer.rangeTombstones
    let memory = try read(handle, .rangeTombstones)
    guard let start = footer.rootIndex.end else {
      throw .corruption("the root index has no end", file: file.path, offset: footer.rootIndex.offset)
    }
    return try RangeTombstoneIndex(
      memory.view.slice(0, Int(handle.contentSize)), section: start..<max(start, handle.offset), path: file.path,
      offset: handle.offset)
  }

  /// Reads the properties, again at each call.
  func properties() throws(EngineError) -> TableProperties {
    let memory = try read(footer.properties, .properties)
    let content = memory.view.slice(0, Int(footer.properties.contentSize))
    return try TableProperties(content, path: file.path, offset: footer.properties.offset)
  }
}

/// The range tombstones of a table for a range of keys, from `lower` (included) to `upper` (excluded).
///
/// Without bounds, they are those of the whole table. Between two parts, there are none.
struct TombstonePart {
  let list: RangeTombstoneList
  var lower: ByteView?
  var upper: ByteView?
  /// The owner of the bounds.
  var index: RangeTombstoneIndex?

  func contains(_ key: ByteView) -> Bool {
    lower.map { $0 <= key } ?? true && upper.map { key < $0 } ?? true
  }
}

/// The result of `TableReader.get`. The value is valid while the hit lives.
struct TableHit: ~Copyable {
  let trailer: Trailer
  let value: ByteView
  private let pin: BlockPin

  @inline(__always)
  init(trailer: Trailer, value: ByteView, pin: consuming BlockPin) {
    self.trailer = trailer
    self.value = value
    self.pin = pin
  }
}
