/// A few keys that are looked up in tables together, in steps.
///
/// A lookup reads a filter, an index and a block, and each step waits for memory whose address only the previous step
/// yields: a handful of dependent cache misses. Here each step is done for all keys of the window before the next, and
/// prefetches the memory that the next one reads, so that the misses of different keys overlap. RocksDB's MultiGet does
/// the same with file reads, and "Asynchronous Memory Access Chaining" (VLDB 2015) compares the methods for memory;
/// this is group prefetching.
///
/// # Steps
/// 1. `add`: find the tables that may contain the key; prefetch the cache slot of its filter.
/// 2. Prefetch the line of each filter.
/// 3. Find the newest table whose filter has the key, and its root index; prefetch the slot of the partition or block.
/// 4. Read the partition, and then prefetch the cache slot of the block.
/// 5. Read the block, and find the key in it. After a false positive of the filter, read the older tables, as
///    `TableReader.get` does.
///
/// On a cache miss the final step reads the block from the file.
///
/// # Neighbors
/// Keys that are close in order share partitions and blocks (`LastBlock`). A step neither prefetches nor looks up again
/// what the key before it used. `add` searches the data block that was read last: a key that is between its rows takes
/// no step at all, and reads neither filter nor index.
///
/// # Safety
/// `add` and the `find` after it are called inside one read epoch, which keeps the readers alive. The last block is
/// kept by its own pin.
@safe
struct LookupWindow: ~Copyable {
  /// The minimum number of keys: with fewer, the bookkeeping costs more than it saves.
  static let keyCountMinimum = 4
  /// The maximum number of keys: enough for the misses that a core can have in flight, and few enough that no
  /// prefetched line is evicted before it is used.
  static let keyCountMaximum = 16

  /// A table that may contain a key.
  @safe
  private struct Candidate {
    let reader: Unmanaged<TableReader>
    let hash: UInt64
  }

  private struct Lookup {
    /// The index of the key.
    let index: Int
    /// The key's candidates, newest first.
    let candidates: Range<Int>
    /// The index of the candidate that passed the filter, or the end of `candidates` if none did.
    var chosen: Int
    /// The block to read next in that table.
    var handle = BlockHandle.none
  }

  /// The block that the last lookup of a step read.
  @safe
  private struct LastBlock: ~Copyable {
    private var key: BlockKey?
    private var pin: BlockPin?
    private var content = ByteView()

    /// Returns the content of a block, valid until the next call.
    @inline(__always)
    mutating func read(
      _ handle: BlockHandle, _ role: BlockRole, _ reader: TableReader
    ) throws(EngineError) -> ByteView {
      let key = BlockKey(tableID: reader.tableID, offset: handle.offset)
      if self.key == key { return content }
      self.key = nil
      let fresh = try reader.block(handle, role)
      content = fresh.content
      pin = consume fresh
      self.key = key
      return content
    }

    /// Returns the rows and the first one at or after (key, trailer) if that is the first one of the whole table: the
    /// block has an entry before it.
    @inline(__always)
    func row(atOrAfter key: ByteView, _ trailer: Trailer, inTable tableID: UInt64) -> (Block, Int)? {
      guard self.key?.tableID == tableID else { return nil }
      let rows = Block(validated: content)
      let row = rows.lowerBound(key, trailer)
      return row > 0 && row < rows.rowCount ? (rows, row) : nil
    }
  }

  private let sequence: SequenceNumber
  private let target: Trailer
  private var candidates: [Candidate] = []
  private var lookups: [Lookup] = []
  /// The data block that was read last.
  private var block = LastBlock()

  init(at sequence: SequenceNumber) {
    self.sequence = sequence
    target = Trailer(seek: sequence)
    candidates.reserveCapacity(4 * Self.keyCountMaximum)
    lookups.reserveCapacity(Self.keyCountMaximum)
  }

  /// Adds the key with an index, which no memtable may contain.
  ///
  /// If the block that was read last has the newest visible entry of the key, `body` is called at once, and the key is
  /// not added. Returns whether that is so.
  mutating func add(
    _ index: Int, _ key: ByteView, _ version: Version, _ tree: Tree,
    _ body: (Int, ByteView, Trailer, _ value: ByteView) throws(EngineError) -> Void
  ) throws(EngineError) -> Bool {
    let hash = KeyHash.hash(key)
    let first = candidates.count
    var isFound = false
    try version.forEachTable(thatMayHold: key, at: sequence) { (table) throws(EngineError) in
      if candidates.count == first, let (rows, row) = block.row(atOrAfter: key, target, inTable: table.tableID) {
        guard rows.hasKey(row, key) else { return true }
        isFound = true
        try body(index, key, rows.trailer(row), rows.value(row))
        return false
      }
      let reader = unsafe try tree.borrowReader(table)
      unsafe reader._withUnsafeGuaranteedRef { $0.prefetchFilterLookup(hash) }
      unsafe candidates.append(Candidate(reader: reader, hash: hash))
      return true
    }
    if first < candidates.count {
      lookups.append(Lookup(index: index, candidates: first..<candidates.count, chosen: candidates.count))
    }
    return isFound
  }

  /// Finds the newest visible entry of each added key that has one, and removes all keys from the window.
  mutating func find(
    _ keys: [[UInt8]], _ body: (Int, ByteView, Trailer, _ value: ByteView) throws(EngineError) -> Void
  ) throws(EngineError) {
    for candidate in candidates {
      unsafe candidate.reader._withUnsafeGuaranteedRef { $0.prefetchFilterLine(candidate.hash) }
    }
    for location in lookups.indices { try choose(location, keys) }
    for location in lookups.indices { prefetchPartition(location) }
    var partition = LastBlock()
    for location in lookups.indices { try searchPartition(location, keys, &partition) }
    for location in lookups.indices { prefetchBlock(location) }
    for lookup in lookups {
      try keys[lookup.index].withByteView { (key) throws(EngineError) in try finish(lookup, key, body) }
    }
    candidates.removeAll(keepingCapacity: true)
    lookups.removeAll(keepingCapacity: true)
  }

  /// Chooses the newest table that may contain the key according to filter and root index.
  private mutating func choose(_ location: Int, _ keys: [[UInt8]]) throws(EngineError) {
    let lookup = lookups[location]
    try keys[lookup.index].withByteView { (key) throws(EngineError) in
      for number in lookup.candidates {
        let candidate = candidates[number]
        let handle = try unsafe candidate.reader.withGuaranteed { (reader) throws(EngineError) -> BlockHandle? in
          guard try reader.mayContain(candidate.hash) else { return nil }
          return try reader.rootHandle(key, target)
        }
        guard let handle else { continue }
        lookups[location].chosen = number
        lookups[location].handle = handle
        prefetchLookup(location)
        return
      }
    }
  }

  private func reader(_ lookup: Lookup) -> Unmanaged<TableReader>? {
    lookup.chosen < lookup.candidates.upperBound ? unsafe candidates[lookup.chosen].reader : nil
  }

  /// Returns the reader of a lookup whose next block is not that of the lookup before it, or `nil` if there is nothing
  /// to prefetch.
  private func readerOfFreshBlock(_ location: Int) -> Unmanaged<TableReader>? {
    let lookup = lookups[location]
    guard lookup.handle != BlockHandle.none, let reader = unsafe reader(lookup) else { return nil }
    guard location > 0, lookups[location - 1].handle == lookup.handle else { return unsafe reader }
    return unsafe self.reader(lookups[location - 1])?.toOpaque() == reader.toOpaque() ? nil : reader
  }

  private func prefetchLookup(_ location: Int) {
    let handle = lookups[location].handle
    unsafe readerOfFreshBlock(location)?._withUnsafeGuaranteedRef { $0.prefetchLookup(handle) }
  }

  private func prefetchPartition(_ location: Int) {
    let handle = lookups[location].handle
    unsafe readerOfFreshBlock(location)?._withUnsafeGuaranteedRef { reader in
      if reader.hasPartitions { reader.prefetchBlock(handle) }
    }
  }

  private mutating func searchPartition(
    _ location: Int, _ keys: [[UInt8]], _ last: inout LastBlock
  ) throws(EngineError) {
    let lookup = lookups[location]
    guard let reader = unsafe reader(lookup) else { return }
    let handle = try unsafe reader.withGuaranteed { (reader) throws(EngineError) -> BlockHandle? in
      guard reader.hasPartitions else { return lookup.handle }
      let partition = IndexBlock(validated: try last.read(lookup.handle, .index, reader))
      return keys[lookup.index].withByteView { partition.handle($0, target) }
    }
    // A `nil` handle means that the key is after all keys of the partition: it is not in this table, and `finish`
    // continues with the next one.
    lookups[location].handle = handle ?? BlockHandle.none
    prefetchLookup(location)
  }

  private func prefetchBlock(_ location: Int) {
    let handle = lookups[location].handle
    unsafe readerOfFreshBlock(location)?._withUnsafeGuaranteedRef { $0.prefetchBlock(handle) }
  }

  private mutating func finish(
    _ lookup: Lookup, _ key: ByteView, _ body: (Int, ByteView, Trailer, _ value: ByteView) throws(EngineError) -> Void
  ) throws(EngineError) {
    guard let chosen = unsafe reader(lookup) else { return }
    if lookup.handle != BlockHandle.none {
      let rows = Block(
        validated: try unsafe chosen.withGuaranteed { (reader) throws(EngineError) in
          try block.read(lookup.handle, .data, reader)
        })
      if let row = rows.row(of: key, target) {
        return try body(lookup.index, key, rows.trailer(row), rows.value(row))
      }
    }
    for number in (lookup.chosen + 1)..<max(lookup.chosen + 1, lookup.candidates.upperBound) {
      let candidate = candidates[number]
      let isFound = try unsafe candidate.reader.withGuaranteed { (reader) throws(EngineError) in
        guard let hit = try reader.get(key, hash: candidate.hash, at: sequence) else { return false }
        try body(lookup.index, key, hit.trailer, hit.value)
        return true
      }
      if isFound { return }
    }
  }
}
