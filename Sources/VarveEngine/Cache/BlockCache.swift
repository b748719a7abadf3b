internal import FutexLocks
import Synchronization

/// Decoded blocks of all tables of all families, found by table id and offset: data, index and filter
/// blocks alike, within one capacity in bytes.
///
/// A **hit** takes no lock and allocates nothing: hash, one load of the shard's index, one probe, one
/// atomic addition that pins the slot; the pin's end is one atomic subtraction. **Insertion** and
/// eviction take the lock of one shard. What the policy of eviction is, `BlockCacheShard` says.
///
/// # Invariants
/// 1. A pinned block is neither freed nor changed.
/// 2. `usedBytes` counts every block that the cache has or that a pin of its owns, with
///    `CacheSlot.overhead` each. It is above the capacity only by what is pinned, or while an
///    insertion or `setCapacity` runs.
/// 3. At most one block of a key is in the cache. A second insertion gets the first block, and its own
///    memory is freed.
/// 4. A lookup may miss a block that another thread inserts, or whose neighbours in the index are
///    evicted, at the same time. It never finds a wrong one.
///
/// # Concurrency
/// Every method is safe from any thread. The capacity is one for all shards. A shard that has its share
/// makes room in itself; one that has less, or can't evict enough, takes it from those with more: else
/// a shard that was once late would evict its few blocks for each new one, and never catch up.
/// Two shards are never locked at a time.
///
/// # Safety
/// The owner of the shards' memory. Pins may outlive the cache (see `BlockPin`).
@safe
final class BlockCache: @unchecked Sendable {
  // Sendable: atomics, and state under locks.

  /// Allocated apart, so that insertions don't write to the cache lines that lookups read.
  private struct Account: ~Copyable {
    let used = Atomic<Int>(0)
    let capacity: Atomic<Int>
    let refusedCount = Atomic<UInt64>(0)
    /// What is pinned for longer than a read.
    let pinned = Atomic<Int>(0)
    /// Evicted by smaller capacities since the heap was last trimmed.
    let shrunk = Atomic<Int>(0)

    init(capacity: Int) { self.capacity = Atomic(capacity) }
  }

  private static let shardBits = 4
  private static let shardCount = 1 << shardBits

  /// The packed index of each shard (`CacheIndex.packed`): all that a lookup reads before the index.
  private let indexes: UnsafeMutablePointer<Atomic<UInt>>
  private let shards: UnsafeMutablePointer<FutexLock<BlockCacheShard>>
  private let account: UnsafeMutablePointer<Account>
  private let lookups = CacheLookupCounters()

  /// A cache of at most `capacity` bytes, bookkeeping included. It allocates as it fills.
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

  /// The block with a pin, or nil. A caller that asks again after a miss leaves it to that time to be counted.
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

  /// Asks for the memory that a lookup of this key reads first.
  func prefetchLookup(_ key: BlockKey) {
    let hash = key.cacheHash
    // Acquiring: as in `lookup`.
    unsafe CacheIndex(packed: indexes[BlockCache.shardNumber(hash)].load(ordering: .acquiring)).prefetch(hash)
  }

  // MARK: - Insertion

  /// Puts a block into the cache and pins it. Never fails: if the cache has the key already, its block
  /// is pinned and `memory` freed; if it can't keep the block (too large, or all else is pinned), the
  /// pin owns it alone.
  func insert(_ key: BlockKey, _ memory: consuming BlockMemory, priority: BlockPriority = .normal) -> BlockPin {
    let hash = key.cacheHash
    let count = memory.count
    let base = unsafe memory.take()
    let charge = count + CacheSlot.overhead
    let number = BlockCache.shardNumber(hash)
    if charge <= largestCharge(priority) {
      // The second try finds room that other shards made.
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

  /// One try under the shard's lock: the slot, pinned, and whether the block is the given one; nil if
  /// there is no room and the shard has nothing more to evict.
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

  /// Charges a block and evicts from this shard what that is too much. False, with nothing charged for
  /// the block, if the shard has not enough to evict, or others should give first.
  private func makeRoom(
    _ charge: Int, in shard: inout BlockCacheShard, _ victims: inout BlockMemoryChain, isLastTry: Bool
  ) -> Bool {
    let capacity = capacity
    // Near its share a shard helps itself: looking for one that has more takes other locks.
    let share = isLastTry ? 0 : capacity / BlockCache.shardCount / 8 * 7
    // What is freed and charged is summed up first: one write to the account that all shards share.
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
      // Another insertion saw the same free bytes: evict once more.
      change = 0
    }
  }

  /// What a block may be charged at most to be kept. A data block above half of the cache would be
  /// bought too dearly; filters of large tables are worth it.
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

  /// Gives back what a block was charged that its pin owned alone.
  func uncharge(_ charge: Int) { charged(-charge) }

  // MARK: - Long pins

  /// The share of the capacity that pins may take which outlive a read: an eighth.
  static let pinnedShare = 8

  /// Notes bytes of the cache that will be pinned for long; false, and nothing is noted, where that would be more than
  /// its share.
  func reservePinned(_ bytes: Int) -> Bool {
    let pinned = unsafe account.pointee.pinned.wrappingAdd(bytes, ordering: .relaxed).newValue
    if pinned <= capacity / BlockCache.pinnedShare { return true }
    releasePinned(bytes)
    return false
  }

  /// They are pinned no longer.
  func releasePinned(_ bytes: Int) {
    unsafe account.pointee.pinned.wrappingSubtract(bytes, ordering: .relaxed)
  }

  /// What `reservePinned` has noted.
  var pinnedBytes: Int { unsafe account.pointee.pinned.load(ordering: .relaxed) }

  // MARK: - Capacity

  /// The bytes that the cache may hold.
  var capacity: Int { unsafe account.pointee.capacity.load(ordering: .relaxed) }
  /// The bytes of all blocks and their bookkeeping, those included that a pin owns alone.
  var usedBytes: Int { unsafe account.pointee.used.load(ordering: .relaxed) }

  /// Changes the capacity; evicts at once what is too much and not pinned.
  func setCapacity(_ capacity: Int) {
    precondition(capacity >= 0, "a capacity in bytes")
    unsafe account.pointee.capacity.store(capacity, ordering: .relaxed)
    let before = usedBytes
    _ = evict(from: 0, room: 0)
    unsafe account.pointee.shrunk.wrappingAdd(max(0, before - usedBytes), ordering: .relaxed)
  }

  /// Gives the pages of evicted blocks back to the operating system, if `setCapacity` has evicted many
  /// since the last time: a sixteenth of the cache, at most 8 MiB; else it costs nothing. Measured: 24 ms for
  /// 130 MiB, so it is for a background thread, from time to time. Without it the heap keeps what the
  /// cache gave up.
  func trimIfShrunk() {
    guard hasShrunk else { return }
    unsafe account.pointee.shrunk.store(0, ordering: .relaxed)
    BlockMemory.trim()
  }

  /// Whether `trimIfShrunk` would do anything.
  var hasShrunk: Bool {
    let size = min(max(capacity / 16, BlockCache.trimSizeMinimum), BlockCache.trimSizeMaximum)
    return unsafe account.pointee.shrunk.load(ordering: .relaxed) >= size
  }

  private static let trimSizeMinimum = 1 << 20
  private static let trimSizeMaximum = 8 << 20

  /// Evicts from one shard after another until `room` bytes are free, first from those that have more
  /// than their share; false if that can't be.
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
        // A batch a lock, so that insertions of others get their turn.
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

  /// Frees what can be freed of the blocks of a table that is obsolete, and hides the others. Without
  /// it they would be evicted in their turn. Looks at every slot: for background threads.
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

  /// How many blocks the cache holds, and what they are charged, counted shard by shard.
  var contents: (blockCount: Int, bytes: Int) {
    var result = (blockCount: 0, bytes: 0)
    for number in 0..<BlockCache.shardCount {
      let shard = withShard(number) { shard in (shard.blockCount, shard.bytes) }
      result.blockCount += shard.0
      result.bytes += shard.1
    }
    return result
  }

  /// Adds to the account; returns what is used then.
  @discardableResult
  private func charged(_ bytes: Int) -> Int {
    unsafe account.pointee.used.wrappingAdd(bytes, ordering: .relaxed).newValue
  }

  /// Runs `body` under the lock of a shard.
  @inline(__always)
  private func withShard<R>(_ number: Int, _ body: (inout BlockCacheShard) -> sending R) -> sending R {
    unsafe shards[number].withLock { shard in
      // The lock orders all this by itself. But on Linux it lives in a library that the thread
      // sanitizer does not see into: the pair of operations, two ordinary moves on most processors,
      // shows it the same order.
      _ = shard.order.load(ordering: .acquiring)
      let result = body(&shard)
      shard.order.store(0, ordering: .releasing)
      return result
    }
  }

  /// The shard that has the blocks of this hash.
  @inline(__always)
  static func shardNumber(_ hash: UInt64) -> Int { Int(truncatingIfNeeded: hash >> (64 - UInt64(shardBits))) }
}
