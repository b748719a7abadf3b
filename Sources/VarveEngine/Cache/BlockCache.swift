internal import FutexLocks
import Synchronization

/// The cache of decoded blocks of all tables of all families, within one capacity in bytes.
///
/// Data, index and filter blocks alike are found by table id and offset.
///
/// A **hit** takes no lock and allocates no memory. It costs a hash, one load of the shard's index, one probe, and one
/// atomic addition that pins the slot; the end of the pin is one atomic subtraction. **Insertion** and eviction take
/// the lock of one shard. `BlockCacheShard` describes the eviction policy.
///
/// # Invariants
/// 1. A pinned block is neither freed nor changed.
/// 2. `usedBytes` counts every block that the cache has or that a pin owns alone, with `CacheSlot.overhead` each. It
///    exceeds the capacity only by the pinned blocks, or while an insertion or `setCapacity` runs.
/// 3. At most one block of a key is in the cache. A second insertion gets the first block, and its own memory is freed.
/// 4. A lookup may miss a block that another thread inserts at the same time, or whose neighbors in the index are
///    evicted at the same time. It never finds a wrong one.
///
/// # Concurrency
/// Every method is safe from any thread. All shards share one capacity. A shard that has its share evicts its own
/// blocks to make room. One that has less, or can't evict enough, takes room from those with more: otherwise a shard
/// that is filled late would evict its few blocks for each new one, and never catch up. A thread never holds the locks
/// of two shards.
///
/// # Safety
/// The object owns the shards' memory. Pins may outlive the cache (see `BlockPin`).
@safe
final class BlockCache: @unchecked Sendable {
  // Sendable: atomics, and state under locks.

  /// The counters, allocated separately, so that insertions don't write to the cache lines that lookups read.
  private struct Account: ~Copyable {
    let used = Atomic<Int>(0)
    let capacity: Atomic<Int>
    let refusedCount = Atomic<UInt64>(0)
    /// The bytes that are pinned for longer than a read.
    let pinned = Atomic<Int>(0)
    /// The bytes evicted because of smaller capacities since the heap was last trimmed.
    let shrunk = Atomic<Int>(0)

    init(capacity: Int) { self.capacity = Atomic(capacity) }
  }

  private static let shardBits = 4
  private static let shardCount = 1 << shardBits

  /// The packed index of each shard (`CacheIndex.packed`), which is all that a lookup reads before the index itself.
  private let indexes: UnsafeMutablePointer<Atomic<UInt>>
  private let shards: UnsafeMutablePointer<FutexLock<BlockCacheShard>>
  private let account: UnsafeMutablePointer<Account>
  private let lookups = CacheLookupCounters()

  /// Creates a cache of at most `capacity` bytes, bookkeeping included. It allocates memory as it fills.
  init(capacity: Int) {
    precondition(capacity >= 0, "a capacity in bytes")
    let lines = UnsafeMutableRawPointer.allocate(
      byteCount: BlockCache.shardCount * MemoryLayout<Atomic<UInt>>.stride, alignment: 64)
    unsafe indexes = lines.bindMemory(to: Atomic<UInt>.self, capacity: BlockCache.shardCount)
    unsafe shards = UnsafeMutablePointer.allocate(capacity: BlockCache.shardCount)
    unsafe account = UnsafeMutablePointer.allocate(capacity: 1)
    unsafe account.initialize(to: Account(capacity: capacity))
    for number in 0..<BlockCache.shardCount {
      unsafe (shards + number).initialize(to: FutexLock(BlockCacheShard()))
      let packed = unsafe shards[number].withLock { shard in shard.index.packed }
      unsafe (indexes + number).initialize(to: Atomic(packed))
    }
  }

  deinit {
    unsafe shards.deinitialize(count: BlockCache.shardCount)
    unsafe shards.deallocate()
    unsafe indexes.deinitialize(count: BlockCache.shardCount)
    unsafe UnsafeMutableRawPointer(indexes).deallocate()
    unsafe account.deinitialize(count: 1)
    unsafe account.deallocate()
  }

  // MARK: - Lookup

  /// Returns the block with a pin, or `nil` if the cache doesn't have it.
  ///
  /// A caller that looks up the key again after a miss sets `countsMiss` to false in the first call, so that only the
  /// second is counted.
  @inline(__always)
  func lookup(_ key: BlockKey, countsMiss: Bool = true) -> BlockPin? {
    let hash = key.cacheHash
    // Acquiring: pairs with the releasing store of `insert` after the index grew.
    let index = unsafe CacheIndex(packed: indexes[BlockCache.shardNumber(hash)].load(ordering: .acquiring))
    if let slot = index.lookup(key, hash) {
      lookups.countHit()
      return slot.takenPin
    }
    if countsMiss { lookups.countMiss() }
    return nil
  }

  /// Prefetches the memory that a lookup of this key reads first.
  func prefetchLookup(_ key: BlockKey) {
    let hash = key.cacheHash
    // Acquiring, for the reason given in `lookup`.
    unsafe CacheIndex(packed: indexes[BlockCache.shardNumber(hash)].load(ordering: .acquiring)).prefetch(hash)
  }

  // MARK: - Insertion

  /// Inserts a block and pins it. Never fails.
  ///
  /// If the cache has the key already, its block is pinned and `memory` is freed. If the cache can't keep the block,
  /// because it is too large or all other blocks are pinned, the pin owns it alone.
  func insert(_ key: BlockKey, _ memory: consuming BlockMemory, priority: BlockPriority = .normal) -> BlockPin {
    let hash = key.cacheHash
    let count = memory.count
    let base = unsafe memory.take()
    let charge = count + CacheSlot.overhead
    let number = BlockCache.shardNumber(hash)
    if charge <= largestCharge(priority) {
      // The second attempt uses the room that other shards made.
      for isLastTry in [false, true] {
        let found = unsafe insert(into: number, key, hash, base, count, priority, isLastTry: isLastTry)
        if let (slot, isNew) = found {
          if !isNew { unsafe BlockMemory.release(base, count) }
          return slot.takenPin
        }
        if isLastTry || !evict(from: number &+ 1, room: charge) { break }
      }
    }
    return unsafe standAlone(base, count, charge)
  }

  /// Makes one attempt under the shard's lock. Returns the slot, pinned, and whether the block is the given one.
  ///
  /// Returns `nil` if there is no room and the shard has no more blocks to evict.
  private func insert(
    into number: Int, _ key: BlockKey, _ hash: UInt64, _ base: UnsafeMutableRawPointer, _ count: Int,
    _ priority: BlockPriority, isLastTry: Bool
  ) -> (slot: CacheSlot, isNew: Bool)? {
    let charge = count + CacheSlot.overhead
    var victims = BlockMemoryChain()
    let result: (slot: CacheSlot, isNew: Bool)? = withShard(number) { shard in
      if let slot = shard.index.lookup(key, hash) { return (slot, false) }
      guard makeRoom(charge, in: &shard, &victims, isLastTry: isLastTry) else { return nil }
      let packedBefore = shard.index.packed
      guard let slot = unsafe shard.insert(key, hash: hash, base: base, count: count, priority: priority) else {
        charged(-charge)
        return nil
      }
      if shard.index.packed != packedBefore {
        // Releasing: pairs with the acquiring load of `lookup`.
        unsafe indexes[number].store(shard.index.packed, ordering: .releasing)
      }
      return (slot, true)
    }
    victims.releaseAll()
    return result
  }

  /// Charges a block, and evicts from this shard the bytes that exceed the capacity.
  ///
  /// Returns false, without charging the block, if the shard has too little to evict, or if other shards should evict
  /// first.
  private func makeRoom(
    _ charge: Int, in shard: inout BlockCacheShard, _ victims: inout BlockMemoryChain, isLastTry: Bool
  ) -> Bool {
    let capacity = capacity
    // A shard near its share evicts its own blocks, because finding a shard that has more takes other locks.
    let share = isLastTry ? 0 : capacity / BlockCache.shardCount / 8 * 7
    // Freed and charged bytes are summed first, so that the account that all shards share is written once.
    var change = charge
    var used = unsafe account.pointee.used.load(ordering: .relaxed)
    while true {
      while used + change > capacity, shard.bytes + charge > share, let freed = shard.evictOne(&victims) {
        change -= freed
      }
      let hasRoom = used + change <= capacity
      if !hasRoom { change -= charge }
      used = charged(change)
      if !hasRoom { return false }
      if used <= capacity { return true }
      // Another insertion used the same free bytes, so this one evicts again.
      change = 0
    }
  }

  /// Returns the maximum charge of a block that is kept.
  ///
  /// A data block above half of the cache would displace too many others; filters of large tables are worth it.
  private func largestCharge(_ priority: BlockPriority) -> Int {
    priority == .high ? capacity : capacity / 2
  }

  // MARK: - Blocks that the cache does not keep

  private func standAlone(_ base: UnsafeMutableRawPointer, _ count: Int, _ charge: Int) -> BlockPin {
    charged(charge)
    unsafe account.pointee.refusedCount.wrappingAdd(1, ordering: .relaxed)
    let record = unsafe CacheSlot.allocate(1)
    unsafe record.pointee.base = base
    unsafe record.pointee.count = count
    unsafe record.pointee.owner = Unmanaged.passRetained(self as AnyObject)
    unsafe record.pointee.word.store(CacheSlot.alone | CacheSlot.onePin, ordering: .relaxed)
    return unsafe CacheSlot(record).takenPin
  }

  /// Subtracts the charge of a block that its pin owned alone.
  func uncharge(_ charge: Int) { charged(-charge) }

  // MARK: - Long pins

  /// The divisor of the capacity for the share of it that pins which outlive a read may take: an eighth.
  static let pinnedShare = 8

  /// Reserves bytes of the cache that will be pinned for long.
  ///
  /// Returns false, without reserving any, if that would exceed the share of such pins.
  func reservePinned(_ bytes: Int) -> Bool {
    let pinned = unsafe account.pointee.pinned.wrappingAdd(bytes, ordering: .relaxed).newValue
    if pinned <= capacity / BlockCache.pinnedShare { return true }
    releasePinned(bytes)
    return false
  }

  /// Releases bytes that `reservePinned` reserved, when they are pinned no longer.
  func releasePinned(_ bytes: Int) {
    unsafe account.pointee.pinned.wrappingSubtract(bytes, ordering: .relaxed)
  }

  /// The bytes that `reservePinned` has reserved.
  var pinnedBytes: Int { unsafe account.pointee.pinned.load(ordering: .relaxed) }

  // MARK: - Capacity

  /// The maximum bytes of the cache.
  var capacity: Int { unsafe account.pointee.capacity.load(ordering: .relaxed) }
  /// The bytes of all blocks and their bookkeeping, including blocks that a pin owns alone.
  var usedBytes: Int { unsafe account.pointee.used.load(ordering: .relaxed) }

  /// Changes the capacity, and at once evicts the unpinned blocks that exceed it.
  func setCapacity(_ capacity: Int) {
    precondition(capacity >= 0, "a capacity in bytes")
    unsafe account.pointee.capacity.store(capacity, ordering: .relaxed)
    let before = usedBytes
    _ = evict(from: 0, room: 0)
    unsafe account.pointee.shrunk.wrappingAdd(max(0, before - usedBytes), ordering: .relaxed)
  }

  /// Returns the pages of evicted blocks to the operating system, if `setCapacity` has evicted many since the last
  /// call.
  ///
  /// "Many" is a sixteenth of the cache, at least 1 MiB and at most 8 MiB; below that the call costs nothing. Measured:
  /// 24 ms for 130 MiB, so it should be called by a background thread, from time to time. Without it the heap keeps the
  /// memory that the cache released.
  func trimIfShrunk() {
    guard hasShrunk else { return }
    unsafe account.pointee.shrunk.store(0, ordering: .relaxed)
    BlockMemory.trim()
  }

  /// A Boolean value that indicates whether `trimIfShrunk` would trim the heap.
  var hasShrunk: Bool {
    let size = min(max(capacity / 16, BlockCache.trimSizeMinimum), BlockCache.trimSizeMaximum)
    return unsafe account.pointee.shrunk.load(ordering: .relaxed) >= size
  }

  private static let trimSizeMinimum = 1 << 20
  private static let trimSizeMaximum = 8 << 20

  /// Evicts from one shard after another until `room` bytes are free, first from those that have more than their share.
  ///
  /// Returns false if that is not possible.
  private func evict(from first: Int, room: Int) -> Bool {
    evict(from: first, room: room, downTo: capacity / BlockCache.shardCount)
      || evict(from: first, room: room, downTo: 0)
  }

  private func evict(from first: Int, room: Int, downTo share: Int) -> Bool {
    for distance in 0..<BlockCache.shardCount {
      if usedBytes + room <= capacity { return true }
      let number = (first + distance) & (BlockCache.shardCount - 1)
      var isExhausted = false
      while usedBytes + room > capacity, !isExhausted {
        // Each lock is held for one batch, so that insertions of other threads are not delayed for long.
        var victims = BlockMemoryChain()
        withShard(number) { shard in
          for _ in 0..<BlockCache.evictionBatch where usedBytes + room > capacity {
            guard shard.bytes > share, let freed = shard.evictOne(&victims) else {
              isExhausted = true
              break
            }
            charged(-freed)
          }
        }
        victims.releaseAll()
      }
    }
    return usedBytes + room <= capacity
  }

  private static let evictionBatch = 32

  /// Frees the unpinned blocks of an obsolete table, and hides the pinned ones.
  ///
  /// Without it they would be evicted in their turn. It examines every slot, so it is for background threads.
  func erase(tableID: UInt64) {
    for number in 0..<BlockCache.shardCount {
      var victims = BlockMemoryChain()
      let freed = withShard(number) { shard in shard.erase(tableID: tableID, &victims) }
      charged(-freed)
      victims.releaseAll()
    }
  }

  // MARK: - Statistics

  var statistics: CacheStatistics {
    var result = CacheStatistics()
    lookups.add(to: &result)
    result.refusedCount = unsafe account.pointee.refusedCount.load(ordering: .relaxed)
    for number in 0..<BlockCache.shardCount {
      withShard(number) { shard in shard.add(to: &result) }
    }
    return result
  }

  /// The number of blocks in the cache and their charge, counted shard by shard.
  var contents: (blockCount: Int, bytes: Int) {
    var result = (blockCount: 0, bytes: 0)
    for number in 0..<BlockCache.shardCount {
      let shard = withShard(number) { shard in (shard.blockCount, shard.bytes) }
      result.blockCount += shard.0
      result.bytes += shard.1
    }
    return result
  }

  /// Adds bytes to the account, and returns the bytes used after that.
  @discardableResult
  private func charged(_ bytes: Int) -> Int {
    unsafe account.pointee.used.wrappingAdd(bytes, ordering: .relaxed).newValue
  }

  /// Runs `body` under the lock of a shard.
  @inline(__always)
  private func withShard<R>(_ number: Int, _ body: (inout BlockCacheShard) -> sending R) -> sending R {
    unsafe shards[number].withLock { shard in
      // The lock alone orders all accesses. But on Linux its implementation is in a library that the thread sanitizer
      // does not instrument. This pair of operations, two ordinary moves on most processors, shows it the order.
      _ = shard.order.load(ordering: .acquiring)
      let result = body(&shard)
      shard.order.store(0, ordering: .releasing)
      return result
    }
  }

  /// Returns the number of the shard that has the blocks of this hash.
  @inline(__always)
  static func shardNumber(_ hash: UInt64) -> Int { Int(truncatingIfNeeded: hash >> (64 - UInt64(shardBits))) }
}
