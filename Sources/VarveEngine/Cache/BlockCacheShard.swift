import Synchronization

/// One part of the block cache, guarded by its lock.
///
/// It knows which slots have blocks, in which queue they are, and which of them is evicted next. Lookups don't use it.
///
/// # Eviction
/// There are three clocks, each a queue whose head is under the hand. A new data block enters **probation**. If a
/// lookup finds it before the hand reaches it, it moves to the **protected** queue; otherwise it is evicted and
/// remembered (`CacheHistory`). Blocks that are inserted again soon after their eviction enter the protected queue at
/// once. There the hand lets a block pass once for being touched since, and once for each of its lives. Blocks are
/// evicted from probation while it is more than a tenth of the data, so a scan, whose blocks are used only once, passes
/// through that tenth and leaves the rest alone. The hand skips pinned blocks.
///
/// Index and filter blocks have the third clock, the **directory**, because each read needs them, whichever data it
/// reads. Its hand advances by one block for each one that is evicted from the protected queue. So data that is read
/// once can't evict the blocks by which it is found, yet directory blocks that are no longer used are evicted
/// eventually. A directory that takes nearly the whole shard evicts blocks as the data queues do.
///
/// This is the S3-FIFO policy with the CLOCK bit of HyperClock's lookups. LRU lists were rejected: they write to shared
/// memory under a lock on every hit.
///
/// # Invariants
/// 1. Each visible or erased slot is in exactly one queue; each empty one is in the list of free slots.
/// 2. Each visible slot is in the index once; erased ones are not.
struct BlockCacheShard: ~Copyable {
  /// A word that shows the thread sanitizer the order that the lock imposes (`BlockCache.withShard`).
  let order = Atomic<UInt32>(0)
  private(set) var index: CacheIndex
  private var retiredIndexes: [CacheIndex] = []
  private var history: CacheHistory
  private var probation = CacheQueue()
  private var protected = CacheQueue()
  private var directory = CacheQueue()
  /// The number of steps that the directory's hand has not made yet.
  private var directorySteps = 0
  private var free = CacheSlotPool()
  /// The number of slots in the index.
  private(set) var visibleCount = 0
  /// The following counters are here, under the lock, because a counter for all shards would be one more cache line
  /// that every insertion takes from the other processors.
  private(set) var insertedCount: UInt64 = 0
  private(set) var insertedBytes: UInt64 = 0
  private(set) var evictedCount: UInt64 = 0
  private(set) var evictedBytes: UInt64 = 0

  init() {
    index = CacheIndex.allocate(sizeBits: BlockCacheShard.indexSizeBitsMinimum)
    history = CacheHistory(sizeBits: BlockCacheShard.indexSizeBitsMinimum)
  }

  /// Frees the blocks; pinned ones are left to their pins.
  deinit {
    let memory = free.memory
    let release = { (slot: CacheSlot) in
      if slot.standAlone(in: memory) { slot.releaseAlone() }
    }
    probation.forEach(release)
    protected.forEach(release)
    directory.forEach(release)
    index.deallocate()
    for retired in retiredIndexes { retired.deallocate() }
  }

  private static let indexSizeBitsMinimum = 6

  // MARK: - Insertion

  /// Returns whether one more slot can be added to the index, which grows if necessary.
  private mutating func makeIndexRoom() -> Bool {
    if visibleCount + 1 <= index.size / 2 { return true }
    let sizeBits = index.size.trailingZeroBitCount
    // At the maximum size the probes get longer instead.
    guard sizeBits < CacheIndex.sizeBitsMaximum else { return visibleCount + 1 <= index.size / 8 * 7 }
    let larger = CacheIndex.allocate(sizeBits: sizeBits + 1)
    larger.insertAll(of: index)
    retiredIndexes.append(index)
    index = larger
    // The history is lost, which is acceptable: the shard is filling up and has evicted little.
    history = CacheHistory(sizeBits: sizeBits + 1)
    return true
  }

  /// Adds a block that the index doesn't have, with one pin. Returns `nil` if there is no slot for it.
  mutating func insert(
    _ key: BlockKey, hash: UInt64, base: UnsafeMutableRawPointer, count: Int, priority: BlockPriority
  ) -> CacheSlot? {
    guard makeIndexRoom() else { return nil }
    let slot = free.take()
    let hash32 = UInt32(truncatingIfNeeded: hash)
    unsafe slot.fill(key, hash32, base, count, priority)
    if priority == .high {
      slot.lives = BlockCacheShard.lives(priority)
      directory.append(slot, bytes: slot.charge)
    } else if history.recall(hash32) {
      slot.lives = BlockCacheShard.lives(priority)
      protected.append(slot, bytes: slot.charge)
    } else {
      probation.append(slot, bytes: slot.charge)
    }
    slot.publish()
    index.insert(slot, hash: hash)
    visibleCount += 1
    insertedCount += 1
    insertedBytes += UInt64(count)
    return slot
  }

  // MARK: - Eviction

  /// Evicts one block and adds its memory to `victims`.
  ///
  /// Returns the charge of the block, or `nil` if all blocks of the shard are pinned.
  mutating func evictOne(_ victims: inout BlockMemoryChain) -> Int? {
    let isCrowded = directory.bytes > (probation.bytes + protected.bytes) * BlockCacheShard.directoryShare
    if isCrowded || directorySteps > 0 {
      let steps = isCrowded ? directory.count * 5 : directorySteps
      directorySteps = 0
      if let charge = evictFromDirectory(steps, &victims) { return charge }
    }
    if let charge = evictData(&victims) { return charge }
    return evictFromDirectory(directory.count * 5, &victims)
  }

  /// The factor by which the directory may exceed the data before it evicts blocks as the data queues do.
  private static let directoryShare = 15

  /// Advances the directory's hand by at most `steps` blocks, and evicts the first block that may be evicted.
  private mutating func evictFromDirectory(_ steps: Int, _ victims: inout BlockMemoryChain) -> Int? {
    for _ in 0..<steps {
      guard let slot = directory.popFirst() else { return nil }
      if let charge = examine(slot, &victims) { return charge }
      directory.append(slot, bytes: slot.charge)
    }
    return nil
  }

  private mutating func evictData(_ victims: inout BlockMemoryChain) -> Int? {
    // Each block is passed at most once for a touch and once for each life, unless readers touch it again meanwhile.
    // The bound holds in that case, too.
    var steps = (probation.count + protected.count) * 5
    var pinnedInProbation = 0
    while steps > 0 {
      steps -= 1
      let share = (probation.bytes + protected.bytes) / 10
      let fromProbation =
        protected.count == 0 || (probation.bytes > share && pinnedInProbation < probation.count)
      if fromProbation {
        guard let slot = probation.popFirst() else { return nil }
        if let charge = examineProbation(slot, &victims, &pinnedInProbation) { return charge }
      } else {
        guard let slot = protected.popFirst() else { return nil }
        if let charge = examine(slot, &victims) {
          directorySteps += 1
          return charge
        }
        protected.append(slot, bytes: slot.charge)
      }
    }
    return nil
  }

  private mutating func examineProbation(
    _ slot: CacheSlot, _ victims: inout BlockMemoryChain, _ pinned: inout Int
  ) -> Int? {
    let word = slot.word
    if word >= CacheSlot.onePin {
      pinned += 1
      probation.append(slot, bytes: slot.charge)
      return nil
    }
    if word & CacheSlot.touched != 0 {
      slot.clearTouched()
      slot.lives = 0
      protected.append(slot, bytes: slot.charge)
      return nil
    }
    if let charge = take(slot, word, &victims, remembering: true) { return charge }
    probation.append(slot, bytes: slot.charge)
    return nil
  }

  /// Evicts a slot that was removed from a queue whose blocks have lives. Returns `nil` if the block stays.
  private mutating func examine(_ slot: CacheSlot, _ victims: inout BlockMemoryChain) -> Int? {
    let word = slot.word
    if word < CacheSlot.onePin {
      if word & CacheSlot.touched != 0 {
        slot.clearTouched()
        slot.lives = BlockCacheShard.lives(slot.priority)
      } else if slot.lives > 0 {
        slot.lives -= 1
      } else if let charge = take(slot, word, &victims, remembering: false) {
        return charge
      }
    }
    return nil
  }

  /// Empties a slot that was removed from its queue, unless a lookup has pinned it meanwhile.
  private mutating func take(
    _ slot: CacheSlot, _ word: UInt64, _ victims: inout BlockMemoryChain, remembering: Bool
  ) -> Int? {
    let charge = slot.charge
    let hash = slot.hash
    guard slot.tryEmpty(word) else { return nil }
    if word & CacheSlot.stateMask == CacheSlot.visible {
      index.remove(slot, hash: UInt64(hash))
      visibleCount -= 1
      if remembering { history.remember(hash) }
    }
    evictedCount += 1
    evictedBytes += UInt64(slot.blockSize)
    unsafe victims.push(slot.takeBlock(), slot.blockSize)
    free.put(slot)
    return charge
  }

  private static func lives(_ priority: BlockPriority) -> UInt8 { priority == .high ? 3 : 1 }

  // MARK: - Erasure

  /// Hides all blocks of a table and frees those without pins. Returns the charge of the freed blocks.
  mutating func erase(tableID: UInt64, _ victims: inout BlockMemoryChain) -> Int {
    var freed = 0
    probation = erase(tableID, from: probation, &victims, &freed)
    protected = erase(tableID, from: protected, &victims, &freed)
    directory = erase(tableID, from: directory, &victims, &freed)
    return freed
  }

  /// Erases the blocks of a table from a queue, and returns the queue without the freed ones.
  private mutating func erase(
    _ tableID: UInt64, from whole: CacheQueue, _ victims: inout BlockMemoryChain, _ freed: inout Int
  ) -> CacheQueue {
    var queue = whole
    for _ in 0..<queue.count {
      guard let slot = queue.popFirst() else { break }
      if slot.key.tableID == tableID, slot.word & CacheSlot.stateMask == CacheSlot.visible {
        index.remove(slot, hash: UInt64(slot.hash))
        visibleCount -= 1
        slot.erase()
        slot.clearTouched()
        slot.lives = 0
      }
      let word = slot.word
      if word & CacheSlot.stateMask == CacheSlot.erased {
        let charge = slot.charge
        if slot.tryEmpty(word) {
          unsafe victims.push(slot.takeBlock(), slot.blockSize)
          free.put(slot)
          freed += charge
          continue
        }
      }
      queue.append(slot, bytes: slot.charge)
    }
    return queue
  }

  // MARK: - For tests and statistics

  var blockCount: Int { probation.count + protected.count + directory.count }
  var bytes: Int { probation.bytes + protected.bytes + directory.bytes }

  func add(to result: inout CacheStatistics) {
    result.insertedCount += insertedCount
    result.insertedBytes += insertedBytes
    result.evictedCount += evictedCount
    result.evictedBytes += evictedBytes
  }
}
