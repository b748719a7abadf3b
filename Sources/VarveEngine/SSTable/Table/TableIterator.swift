/// Iterates over the entries of a table.
///
/// The iterator holds a pin (or, for compactions, buffers of its own) on its data block and on the index blocks that
/// lead there. Steps inside a block allocate nothing: the key is assembled in a buffer of the iterator that keeps the
/// prefixes, so that a step copies only the suffix, and trailer and value are computed on demand.
///
/// # States
/// If `row >= 0`, the iterator is valid, and `block`, `partitionRow` and `rootRow` are its position. If `row < 0`, it
/// is not valid, and only a seek makes it valid again. Any error leaves it in this state.
///
/// # Concurrency
/// The iterator belongs to one thread at a time.
@safe
final class TableIterator: InternalIterator {
  private let table: TableReader
  private let visible: SequenceNumber
  private let above: SequenceNumber
  private let isTwoLevel: Bool
  private let readAhead: ReadAhead?

  private var root = IndexBlock()
  private var hasRoot = false
  private var rootRow = 0
  private var partitionPin: BlockPin?
  private var partition = IndexBlock()
  private var partitionRow = 0
  /// The root row whose partition is loaded, or -1 if there is none.
  private var loadedRootRow = -1

  private var blockPin: BlockPin?
  /// The rows of the iterator's current data block.
  private(set) var block = Block()
  private var row = -1
  /// Whether the last step went from the previous block into this one.
  private var isScanning = false
  /// The block after this one, if a scan has found it in the cache, and its offset in the file.
  private var pinAhead: BlockPin?
  private var offsetAhead: UInt64 = 0

  private var key: UnsafeMutableRawPointer
  private var keyCapacity: Int
  private var keySize = 0
  /// The number of bytes at the front of `key` that all keys of the bundle share.
  private var sharedSize = 0
  private var bundleIndex = -1
  private var suffixes: UnsafeRawPointer
  private var suffixSizeMinimum = 0
  private var suffixEnd = 0

  init(
    _ table: TableReader, _ purpose: ReadPurpose, visible: SequenceNumber, above: SequenceNumber = .zero,
    buffers: ReadAhead.Options
  ) {
    self.table = table
    self.visible = visible
    self.above = above
    isTwoLevel = table.footer.indexLevelCount == 2
    readAhead = purpose == .compaction ? ReadAhead(table, buffers) : nil
    keyCapacity = 256
    unsafe key = UnsafeMutableRawPointer.allocate(byteCount: keyCapacity + Block.copySize, alignment: 16)
    unsafe suffixes = UnsafeRawPointer(key)
  }

  deinit {
    // Pins end before the table does, which may hold the last reference to their cache.
    partitionPin = nil
    pinAhead = nil
    blockPin = nil
    unsafe key.deallocate()
  }

  // MARK: - The entry

  @inline(__always)
  var isValid: Bool { row >= 0 }

  @inline(__always)
  var userKey: ByteView { unsafe ByteView(base: UnsafeRawPointer(key), count: keySize) }

  @inline(__always)
  var trailer: Trailer { block.trailer(row) }

  @inline(__always)
  var value: ByteView { block.value(row) }

  /// Transfers the entry's block and the memory of its key to `take`. The iterator is not valid afterwards.
  func giveUpEntry(to take: (consuming BlockPin?, UnsafeMutableRawPointer) -> Void) {
    row = -1
    let old = unsafe key
    keyCapacity = 256
    unsafe key = UnsafeMutableRawPointer.allocate(byteCount: keyCapacity + Block.copySize, alignment: 16)
    unsafe take(blockPin.take(), old)
  }

  // MARK: - Steps

  @inline(__always)
  func next() throws(EngineError) {
    assert(isValid, "next of an iterator that is not valid")
    let following = row &+ 1
    if following >= block.rowCount { return try nextBlock() }
    row = following
    if following & (Block.bundleSize &- 1) == 0 {
      enterBundle(following >> Block.bundleShift)
    }
    let start = suffixEnd
    let slot = following &+ bundleIndex &+ 1
    let location = following & (Block.bundleSize &- 1)
    suffixEnd = (location &+ 1) &* suffixSizeMinimum &+ block.suffixes.integer(slot)
    copySuffix(start)
  }

  func previous() throws(EngineError) {
    assert(isValid, "previous of an iterator that is not valid")
    if row == 0 { return try enterBlockBefore() }
    moveTo(row &- 1)
  }

  /// Moves to the first row of the next block.
  func nextBlock() throws(EngineError) {
    guard isValid else { fatalError("nextBlock of an iterator that is not valid: seek first") }
    row = -1
    partitionRow &+= 1
    try enterBlockAtOrAfter()
    if isValid, readAhead == nil, let handle = handleAhead {
      isScanning = true
      table.prefetchLookup(handle)
    }
  }

  /// The location of the next block of a scan, if the current index block has it.
  private var handleAhead: BlockHandle? {
    let ahead = partitionRow &+ 1
    return ahead < index.rowCount ? index.entries.handle(ahead) : nil
  }

  /// Finds the next block of a scan in the cache and prefetches its memory, so that the scan need not wait for
  /// successive misses when it reaches the block.
  ///
  /// Measured in six pairs, 5 million keys, everything cached: a step takes a tenth less.
  @inline(never)
  private func lookAhead() {
    isScanning = false
    guard let handle = handleAhead, let pin = table.cachedBlock(handle) else { return }
    Block.prefetchRows(pin.content)
    offsetAhead = handle.offset
    pinAhead = consume pin
  }

  // MARK: - Seeks

  func seekToFirst() throws(EngineError) {
    try loadRoot()
    rootRow = 0
    partitionRow = 0
    try enterBlockAtOrAfter()
  }

  func seekToLast() throws(EngineError) {
    try loadRoot()
    rootRow = root.rowCount
    partitionRow = 0
    try enterBlockBefore()
  }

  func seek(_ target: InternalKey) throws(EngineError) {
    guard try findBlock(target) else { return }
    if try !loadBlock() { return try skipForward() }
    let found = block.lowerBound(target.userKey, target.trailer)
    if found < block.rowCount { return moveTo(found) }
    try skipForward()
  }

  func seekBefore(_ target: InternalKey) throws(EngineError) {
    if try findBlock(target), try loadBlock() {
      let found = block.lowerBound(target.userKey, target.trailer)
      if found > 0 { return moveTo(found &- 1) }
    }
    try enterBlockBefore()
  }

  // MARK: - Blocks

  /// The index entry of the iterator's current block.
  var blockEntry: IndexEntry? { isValid ? index.entries.entry(partitionRow) : nil }

  @inline(__always)
  var isAtBlockStart: Bool { row == 0 }

  var tableID: UInt64 { table.tableID }

  /// The block as it is in the file, with its trailer, or nil for users' reads.
  var storedBlock: ByteView? { isValid ? readAhead?.stored : nil }

  /// Returns whether the last row of the block is before `limit`, and so the whole rest of the block is.
  func blockEnds(before limit: InternalKey) -> Bool {
    assert(isValid, "a block of an iterator that is not valid")
    return block.compare(block.rowCount &- 1, limit) < 0
  }

  /// Moves from a tombstone past blocks of which all entries are tombstones that are visible to the reader and before
  /// `limit` (nil for no limit), without reading the blocks that it passes.
  ///
  /// Returns the number of entries passed; if there is no such block, returns 0 and does not move. A key whose
  /// tombstone is the last of a block may continue in the next one, so such a block is not passed.
  func passDeadBlocks(before limit: InternalKey?) throws(EngineError) -> Int {
    assert(isValid, "blocks are passed from an entry")
    let end = limit.map { index.lowerBound($0.userKey, $0.trailer) } ?? index.rowCount
    var passed = 0
    while partitionRow < end {
      let entry = index.entries.entry(partitionRow)
      guard entry.tombstoneCount == entry.rowCount, entry.largestSequence <= visible,
        entry.flags & IndexEntry.continuesAfter == 0
      else { break }
      passed &+= passed == 0 ? block.rowCount &- row : Int(entry.rowCount)
      partitionRow &+= 1
    }
    if passed > 0 { try enterBlockAtOrAfter() }
    return passed
  }

  private func skipForward() throws(EngineError) {
    row = -1
    partitionRow &+= 1
    try enterBlockAtOrAfter()
  }

  /// Moves to the first row of the first block with visible entries at or after (rootRow, partitionRow).
  private func enterBlockAtOrAfter() throws(EngineError) {
    row = -1
    while true {
      if isTwoLevel {
        if rootRow >= root.rowCount { return }
        try loadPartition()
      }
      if partitionRow >= index.rowCount {
        if !isTwoLevel { return }
        rootRow &+= 1
        partitionRow = 0
        continue
      }
      if try loadBlock(), block.rowCount > 0 { return moveTo(0) }
      partitionRow &+= 1
    }
  }

  /// Moves to the last row of the last block with visible entries before (rootRow, partitionRow).
  private func enterBlockBefore() throws(EngineError) {
    row = -1
    while true {
      if partitionRow == 0 || (isTwoLevel && rootRow >= root.rowCount) {
        if isTwoLevel {
          if rootRow == 0 { return }
          rootRow &-= 1
          try loadPartition()
          partitionRow = partition.rowCount
        } else {
          if rootRow < root.rowCount || root.rowCount == 0 { return }
          // The position is after the end of a single-level index.
          rootRow = 0
          partitionRow = root.rowCount
        }
        continue
      }
      partitionRow &-= 1
      if try loadBlock(), block.rowCount > 0 { return moveTo(block.rowCount &- 1) }
    }
  }

  // MARK: - Index

  /// The index block that points to data blocks.
  private var index: IndexBlock { isTwoLevel ? partition : root }

  private func loadRoot() throws(EngineError) {
    row = -1
    if hasRoot { return }
    root = try table.root()
    hasRoot = true
  }

  private func loadPartition() throws(EngineError) {
    if loadedRootRow == rootRow { return }
    loadedRootRow = -1
    let handle = root.entries.handle(rootRow)
    let pin = try indexBlock(handle)
    partition = IndexBlock(validated: pin.content)
    partitionPin = consume pin
    loadedRootRow = rootRow
  }

  private func indexBlock(_ handle: BlockHandle) throws(EngineError) -> BlockPin {
    if readAhead == nil { return try table.block(handle, .index) }
    return BlockPin(owning: try table.read(handle, .index))
  }

  /// Sets (rootRow, partitionRow) to the block in which `target` must be. Returns false, with the position after the
  /// last block, if all entries are before it.
  private func findBlock(_ target: InternalKey) throws(EngineError) -> Bool {
    try loadRoot()
    let found = root.lowerBound(target.userKey, target.trailer)
    rootRow = found
    partitionRow = 0
    if found == root.rowCount { return false }
    if !isTwoLevel {
      rootRow = 0
      partitionRow = found
      return true
    }
    try loadPartition()
    partitionRow = partition.lowerBound(target.userKey, target.trailer)
    return true
  }

  /// Loads the data block at `partitionRow`. Returns false if none of its entries is visible, or if the partition has
  /// no such row.
  private func loadBlock() throws(EngineError) -> Bool {
    row = -1
    guard partitionRow < (isTwoLevel ? partition.rowCount : root.rowCount) else { return false }
    let entries = isTwoLevel ? partition.entries : root.entries
    if entries.smallestSequence(partitionRow) > visible { return false }
    if above != .zero, entries.entry(partitionRow).largestSequence <= above { return false }
    let handle = entries.handle(partitionRow)
    bundleIndex = -1
    isScanning = false
    if let readAhead {
      block = Block(validated: try readAhead.content(handle))
    } else {
      let pin = try takePin(handle)
      block = Block(validated: pin.content)
      blockPin = consume pin
    }
    if block.keySizeMaximum > keyCapacity { growKey() }
    unsafe key.copyMemory(from: block.prefixBase, byteCount: block.prefixSize)
    return true
  }

  @inline(__always)
  private func takePin(_ handle: BlockHandle) throws(EngineError) -> BlockPin {
    if let pin = pinAhead.take(), offsetAhead == handle.offset { return pin }
    return try table.block(handle, .data)
  }

  private func growKey() {
    unsafe key.deallocate()
    keyCapacity = block.keySizeMaximum * 2
    unsafe key = UnsafeMutableRawPointer.allocate(byteCount: keyCapacity + Block.copySize, alignment: 16)
  }

  // MARK: - Rows

  /// Moves to a row of the block.
  private func moveTo(_ target: Int) {
    row = target
    let bundle = target >> Block.bundleShift
    if bundle != bundleIndex { enterBundle(bundle) }
    let location = target & (Block.bundleSize &- 1)
    let slot = target &+ bundle
    let start = location &* suffixSizeMinimum &+ block.suffixes.integer(slot)
    suffixEnd = (location &+ 1) &* suffixSizeMinimum &+ block.suffixes.integer(slot &+ 1)
    copySuffix(start)
  }

  /// Copies the prefix of a bundle into the key.
  private func enterBundle(_ index: Int) {
    let bundle = block.bundle(index)
    bundleIndex = index
    if isScanning, index == 1 { lookAhead() }
    unsafe (key + block.prefixSize).copyMemory(from: bundle.base, byteCount: bundle.prefixSize)
    sharedSize = block.prefixSize &+ bundle.prefixSize
    unsafe suffixes = bundle.base + bundle.prefixSize
    suffixSizeMinimum = bundle.suffixSizeMinimum
    suffixEnd = 0
  }

  /// Copies the suffix from `start` to `suffixEnd` after the prefixes, sixteen bytes at a time: the block's header
  /// follows the source, and the key has room.
  @inline(__always)
  private func copySuffix(_ start: Int) {
    let size = suffixEnd &- start
    keySize = sharedSize &+ size
    let source = unsafe suffixes + start
    let target = unsafe key + sharedSize
    if size <= Block.copySize {
      unsafe target.storeBytes(of: source.loadUnaligned(as: SIMD2<UInt64>.self), as: SIMD2<UInt64>.self)
    } else {
      unsafe target.copyMemory(from: source, byteCount: size)
    }
  }
}
