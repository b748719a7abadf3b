/// A first-in, first-out list of slots, linked through their `next`, with the sum of their charges.
///
/// Used under the shard's lock.
///
/// # Safety
/// The list links slots that live as long as the cache.
@safe
struct CacheQueue: @unchecked Sendable {
  // Sendable: belongs to the state that the shard's lock guards.
  private var head: UnsafeMutablePointer<CacheSlot.Record>?
  private var tail: UnsafeMutablePointer<CacheSlot.Record>?
  private(set) var count = 0
  private(set) var bytes = 0

  init() {
    unsafe head = nil
    unsafe tail = nil
  }

  mutating func append(_ slot: CacheSlot, bytes added: Int) {
    unsafe slot.record.pointee.next = nil
    if let tail = unsafe tail {
      unsafe tail.pointee.next = slot.record
    } else {
      unsafe head = slot.record
    }
    unsafe tail = slot.record
    count += 1
    bytes += added
  }

  /// Removes and returns the oldest slot, or returns `nil` if there is none.
  mutating func popFirst() -> CacheSlot? {
    guard let first = unsafe head else { return nil }
    unsafe head = first.pointee.next
    if unsafe head == nil { unsafe tail = nil }
    let slot = unsafe CacheSlot(first)
    count -= 1
    bytes -= slot.charge
    return slot
  }

  /// Calls `body` for every slot, oldest first.
  func forEach(_ body: (CacheSlot) -> Void) {
    var next = unsafe head
    while let record = unsafe next {
      unsafe next = record.pointee.next
      body(unsafe CacheSlot(record))
    }
  }
}
