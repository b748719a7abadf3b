/// The fingerprints of blocks that a shard evicted untouched.
///
/// A block that is needed again soon after was evicted too early, and is inserted into the protected queue at once.
///
/// There is one 32-bit fingerprint per slot, and the hash determines the slot. A newer eviction overwrites an older
/// one, so a fingerprint lasts about as many evictions as there are slots. A wrong match (one in billions) costs only a
/// slot in the protected queue.
///
/// Used under the shard's lock.
///
/// # Safety
/// The value is the only owner of its memory; slots are masked to its size.
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

  /// Returns whether the block was evicted lately, and forgets it.
  func recall(_ hash: UInt32) -> Bool {
    let slot = slot(hash)
    guard unsafe slots[slot] == hash | 1 else { return false }
    unsafe slots[slot] = 0
    return true
  }

  private func slot(_ hash: UInt32) -> Int { Int(hash >> 1) & mask }
}
