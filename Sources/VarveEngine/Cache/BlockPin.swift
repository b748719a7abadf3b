/// A permission to read a block: while it lives, the bytes of `view` neither move nor change.
///
/// It can be moved and stored (as a property of a noncopyable struct or of a class), but not copied. Its deinitializer
/// releases the pin.
///
/// # Safety
/// A pin references a slot of the cache and does not retain the cache, because that would be two writes to one shared
/// counter on each hit. If the cache is deallocated first (the order in which a struct's properties are deinitialized
/// is easily wrong), it leaves each pinned slot to its pins, and the last one frees the block.
///
/// # Concurrency
/// A pin may be passed to another thread. Any number of threads may read the bytes at the same time.
@safe
struct BlockPin: ~Copyable, @unchecked Sendable {
  // Sendable: immutable bytes, and the count of pins is atomic.
  private let record: UnsafeMutablePointer<CacheSlot.Record>?
  private let base: UnsafeMutableRawPointer
  private let count: Int

  /// Creates the value for a pin that was taken already.
  @inline(__always)
  init(_ slot: CacheSlot, base: UnsafeMutableRawPointer, count: Int) {
    unsafe self.record = slot.record
    unsafe self.base = base
    self.count = count
  }

  /// Creates a pin that owns memory which was never in a cache, such as that of a compaction's reads.
  init(owning memory: consuming BlockMemory) {
    unsafe self.record = nil
    self.count = memory.count
    unsafe self.base = memory.take()
  }

  @inline(__always)
  deinit {
    if let record = unsafe record {
      let slot = unsafe CacheSlot(record)
      if slot.unpin() { slot.releaseAlone() }
    } else {
      unsafe BlockMemory.release(base, count)
    }
  }

  /// The bytes of the block, valid while the pin lives.
  @inline(__always)
  var view: ByteView { unsafe ByteView(base: UnsafeRawPointer(base), count: count) }

  /// A Boolean value that indicates whether other lookups find the block in the cache.
  var isCached: Bool {
    guard let record = unsafe record else { return false }
    return unsafe CacheSlot(record).word & CacheSlot.stateMask == CacheSlot.visible
  }
}
