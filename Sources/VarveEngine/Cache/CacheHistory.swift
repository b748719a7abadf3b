/// What a shard remembers of blocks that it evicted untouched: a block that is asked for again soon
/// after was evicted too early, and goes to the protected queue at once.
///
/// One 32-bit fingerprint a place, the place by hash; a newer eviction overwrites an older one, so a
/// memory lasts about as many evictions as there are places. Wrong memories (one in billions) cost a
/// place in the protected queue, nothing else.
///
/// Used under the shard's lock.
///
/// # Safety
/// The only owner of its memory; places are masked to its size.
@safe
struct CacheHistory: ~Copyable, @unchecked Sendable {
  // Sendable: sole owner of its memory.
  private let places: UnsafeMutablePointer<UInt32>
  private let mask: Int

  init(sizeBits: Int) {
    let size = 1 << sizeBits
    unsafe places = UnsafeMutablePointer<UInt32>.allocate(capacity: size)
    unsafe places.initialize(repeating: 0, count: size)
    mask = size - 1
  }

  deinit { unsafe places.deallocate() }

  func remember(_ hash: UInt32) { unsafe places[place(hash)] = hash | 1 }

  /// Whether the block was evicted lately; forgets it.
  func recall(_ hash: UInt32) -> Bool {
    let place = place(hash)
    guard unsafe places[place] == hash | 1 else { return false }
    unsafe places[place] = 0
    return true
  }

  private func place(_ hash: UInt32) -> Int { Int(hash >> 1) & mask }
}
