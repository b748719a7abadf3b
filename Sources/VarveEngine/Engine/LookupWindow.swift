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
/// # Safety
/// Used inside one read epoch, which keeps the readers alive.
@safe
struct LookupWindow {
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

  private let sequence: SequenceNumber
  private let target: Trailer
  private var candidates: [Candidate] = []
  private var lookups: [Lookup] = []

  init(at sequence: SequenceNumber) {
    self.sequence = sequence
    target = Trailer(seek: sequence)
    candidates.reserveCapacity(4 * Self.keyCountMaximum)
    lookups.reserveCapacity(Self.keyCountMaximum)
  }

  /// Adds the key with an index. No memtable may contain the key.
  mutating func add(
    _ index: Int, _ key: ByteView, _ version: Version, _ tree: Tree
  ) throws(EngineError) {
    let hash = KeyHash.hash(key)
    let first = candidates.count
    try version.forEachTable(thatMayHold: key, at: sequence) { (table) throws(EngineError) in
      let reader = unsafe try tree.borrowReader(table)
      unsafe reader._withUnsafeGuaranteedRef { $0.prefetchFilterLookup(hash) }
      unsafe candidates.append(Candidate(reader: reader, hash: hash))
      return true
    }
    guard first < candidates.count else { return }
    lookups.append(Lookup(index: index, candidates: first..<candidates.count, chosen: candidates.count))
  }

  /// Finds the newest visible entry of each added key that has one, and removes all keys from the window.
  mutating func find(
    _ keys: [[UInt8]], _ body: (Int, ByteView, borrowing TableHit) throws(EngineError) -> Void
  ) throws(EngineError) {
    for candidate in candidates {
      unsafe candidate.reader._withUnsafeGuaranteedRef { $0.prefetchFilterLine(candidate.hash) }
    }
    for location in lookups.indices { try choose(location, keys) }
    for location in lookups.indices { prefetchPartition(location) }
    for location in lookups.indices { try searchPartition(location, keys) }
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
          guard let handle = try reader.rootHandle(key, target) else { return nil }
          reader.prefetchLookup(handle)
          return handle
        }
        guard let handle else { continue }
        lookups[location].chosen = number
        lookups[location].handle = handle
        return
      }
    }
  }

  private func reader(_ lookup: Lookup) -> Unmanaged<TableReader>? {
    lookup.chosen < lookup.candidates.upperBound ? unsafe candidates[lookup.chosen].reader : nil
  }

  private func prefetchPartition(_ location: Int) {
    guard let reader = unsafe reader(lookups[location]) else { return }
    unsafe reader._withUnsafeGuaranteedRef { reader in
      if reader.hasPartitions { reader.prefetchBlock(lookups[location].handle) }
    }
  }

  private mutating func searchPartition(_ location: Int, _ keys: [[UInt8]]) throws(EngineError) {
    let lookup = lookups[location]
    guard let reader = unsafe reader(lookup) else { return }
    let handle = try unsafe reader.withGuaranteed { (reader) throws(EngineError) -> BlockHandle? in
      guard reader.hasPartitions else { return lookup.handle }
      let handle = try keys[lookup.index].withByteView { (key) throws(EngineError) in
        try reader.partitionHandle(key, target, lookup.handle)
      }
      if let handle { reader.prefetchLookup(handle) }
      return handle
    }
    // A `nil` handle means that the key is after all keys of the partition: it is not in this table, and `finish`
    // continues with the next one.
    lookups[location].handle = handle ?? BlockHandle.none
  }

  private func prefetchBlock(_ location: Int) {
    let lookup = lookups[location]
    guard let reader = unsafe reader(lookup), lookup.handle != BlockHandle.none else { return }
    unsafe reader._withUnsafeGuaranteedRef { $0.prefetchBlock(lookup.handle) }
  }

  private func finish(
    _ lookup: Lookup, _ key: ByteView, _ body: (Int, ByteView, borrowing TableHit) throws(EngineError) -> Void
  ) throws(EngineError) {
    guard let chosen = unsafe reader(lookup) else { return }
    if lookup.handle != BlockHandle.none {
      let isFound = try unsafe chosen.withGuaranteed { (reader) throws(EngineError) in
        guard let hit = try reader.get(key, target, lookup.handle) else { return false }
        try body(lookup.index, key, hit)
        return true
      }
      if isFound { return }
    }
    for number in (lookup.chosen + 1)..<max(lookup.chosen + 1, lookup.candidates.upperBound) {
      let candidate = candidates[number]
      let isFound = try unsafe candidate.reader.withGuaranteed { (reader) throws(EngineError) in
        guard let hit = try reader.get(key, hash: candidate.hash, at: sequence) else { return false }
        try body(lookup.index, key, hit)
        return true
      }
      if isFound { return }
    }
  }
}
