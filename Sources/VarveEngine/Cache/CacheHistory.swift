/// What a shard remembers of blocks that it evicted untouched: a block that is asked for again soon
/// after was evicted too early, and goes to the protected queue at once.
///
/// One 32-bit fingerprint a slot, the slot by hash; a newer eviction overwrites an older one, so a
/// memory lasts about as many evictions as there are slots. Wrong memories (one in billions) cost a
/// slot in the protected queue, nothing else.
///
/// Used under the shard's lock.
///
/// # Safety
/// The only owner of its memory; slots are masked to its size.
@safe
struct CacheHistory: ~Copyable, @unchecked Sendable {
  // Sendable: sole owner of its memory.
  private let slots: UnsafeMutablePointer<UInt32>
  private let mask: Int

  init(sizeBits: Int) {
    let size = 1 << sizeBits
    unsafe slots = UnsafeMutablePointer<UInt32>.allocate(capacity: size)
    unsafe slots.initialize(repeating: 0, count: size)
    mask = size - 1
  }

  deinit { unsafe slots.deallocate() }

  func remember(_ hash: UInt32) { unsafe slots[slot(hash)] = hash | 1 }

  /// Whether the block was evicted lately; forgets it.
  func recall(_ hash: UInt32) -> Bool {
    let slot = slot(hash)
    guard unsafe slots[slot] == hash | 1 else { return false }
    unsafe slots[slot] = 0
    return true
  }

  private func slot(_ hash: UInt32) -> Int { Int(hash >> 1) & mask }
}
