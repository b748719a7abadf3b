internal import CVarve
import Synchronization

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// Memory for blocks of the usual sizes: slots of whole pages, which go back to the system one by one.
///
/// A cache that shrinks gives up blocks all over the heap. `malloc` can return only whole pages between two blocks that
/// stay, and a block of 4 KiB hardly ever leaves one: measured under the mixed load of the tests, the heap held 51 MiB
/// where the cache had 20. A data block is closed before it would pass its size, 4 KiB unless options say
/// otherwise, so slots of that size fit. Others, of large values, take as many pages as they need, where no more than a
/// quarter is wasted.
///
/// ```
/// region, 2 MiB at a multiple of 2 MiB; its slots are of one size, 1 to 8 pages
/// ┌────────────────┬────────┬────────┬ · · · ┬────────┐
/// │ BlockRegion    │ slot 1 │ slot 2 │       │ slot n │
/// └────────────────┴────────┴────────┴ · · · ┴────────┘
/// ```
///
/// # Invariants
/// 1. A region with free slots is in one of its stripe's two lists: of those whose free slots have memory, some
///    of them at least, or of those whose free slots have none. A full region is in neither.
/// 2. A slot is given out while its bit in `BlockRegion.free` is clear.
///
/// # Concurrency
/// Safe from any thread; each stripe has a lock. A shard of a cache has a stripe for its blocks: what it evicts makes room
/// for what it inserts.
///
/// # Safety
/// The only owner of the regions. Who calls `release` gives the slot up.
@safe
final class BlockPages: @unchecked Sendable {
  // Sendable: the pointer is stable for life, and what it points to is behind locks.

  /// That of all caches of the process: a block doesn't know its cache.
  static let shared = BlockPages()

  private static let pageSize = 4 << 10
  static let pagesMaximum = 8
  /// The address sanitizer sees only what comes from the heap: it gets all blocks then.
  private static let isSanitized = cvarve_has_address_sanitizer()
  private static let stripeCount = 16

  private let stripes: UnsafeMutablePointer<Mutex<Stripe>>

  /// The lists of one stripe: at index i of slots of i + 1 pages.
  private struct Stripe: ~Copyable {
    /// Shows the thread sanitizer what the lock orders (`BlockCache.withShard`).
    let order = Atomic<UInt32>(0)
    var resident = InlineArray<8, BlockRegionList>(repeating: BlockRegionList())
    var returned = InlineArray<8, BlockRegionList>(repeating: BlockRegionList())
    var statistics = Statistics()
  }

  /// In bytes.
  struct Statistics: Equatable {
    /// Address space of regions.
    var mapped = 0
    /// Slots that are given out.
    var taken = 0
    /// Free slots that have memory.
    var idle = 0
  }

  init() {
    unsafe stripes = UnsafeMutablePointer.allocate(capacity: BlockPages.stripeCount)
    for number in 0..<BlockPages.stripeCount { unsafe (stripes + number).initialize(to: Mutex(Stripe())) }
  }

  /// Requires: all slots were given back.
  deinit {
    trim()
    unsafe stripes.deinitialize(count: BlockPages.stripeCount)
    unsafe stripes.deallocate()
  }

  /// The pages of the slot for a block of so many bytes; nil where it is not to be in one.
  @inline(__always)
  static func pages(for count: Int) -> Int? {
    guard count > pageSize / 4 * 3, count <= pagesMaximum * pageSize, !isSanitized else { return nil }
    let pages = (count + pageSize - 1) / pageSize
    return count > pages * pageSize / 4 * 3 ? pages : nil
  }

  // MARK: - Slots

  /// A slot of undefined content, aligned to a page; nil where the system has no memory.
  func take(pages: Int, stripe: Int) -> UnsafeMutableRawPointer? {
    let stripe = stripe & (BlockPages.stripeCount - 1)
    let list = pages - 1
    let size = pages * BlockPages.pageSize
    return unsafe withStripe(stripe) { state -> UInt in
      guard let region = state.resident[list].first ?? state.returned[list].first ?? makeRegion(stripe, list, &state)
      else { return 0 }
      let before = region.listNumber
      let (slot, wasIdle) = unsafe region.take()
      state.statistics.taken += size
      if wasIdle { state.statistics.idle -= size }
      move(region, from: before, list, &state)
      return UInt(bitPattern: slot)
    }.pointer
  }

  /// Takes a slot back.
  func release(_ slot: UnsafeMutableRawPointer, pages: Int) {
    let region = unsafe BlockRegion(holding: slot)
    let list = pages - 1
    let size = pages * BlockPages.pageSize
    withStripe(region.stripe) { state in
      let before = region.listNumber
      unsafe region.giveBack(slot)
      state.statistics.taken -= size
      state.statistics.idle += size
      move(region, from: before, list, &state)
    }
  }

  /// Gives the memory of all free slots back to the system. Some microseconds a slot: for background threads.
  func trim() {
    for stripe in 0..<BlockPages.stripeCount {
      for list in 0..<BlockPages.pagesMaximum {
        // One region a lock: who reads meanwhile waits for no more than that. What they give back meanwhile stays.
        var left = withStripe(stripe) { $0.statistics.mapped / BlockRegion.size }
        while left > 0, withStripe(stripe, { trimFirst(list, &$0) }) { left -= 1 }
        withStripe(stripe) { unmapEmpty(list, &$0) }
      }
    }
  }

  /// Gives the free slots of one region back, if those of the stripe come to more than `bound` bytes: where blocks of
  /// other sizes are asked for than before, the slots of those stay free.
  func trim(stripe: Int, above bound: Int) {
    withStripe(stripe & (BlockPages.stripeCount - 1)) { state in
      guard state.statistics.idle > bound else { return }
      for list in 0..<BlockPages.pagesMaximum where trimFirst(list, &state) { return }
    }
  }

  var statistics: Statistics {
    var sum = Statistics()
    for stripe in 0..<BlockPages.stripeCount {
      withStripe(stripe) { state in
        sum.mapped += state.statistics.mapped
        sum.taken += state.statistics.taken
        sum.idle += state.statistics.idle
      }
    }
    return sum
  }

  @inline(__always)
  private func withStripe<R>(_ number: Int, _ body: (inout Stripe) -> sending R) -> sending R {
    unsafe stripes[number].withLock { stripe in
      _ = stripe.order.load(ordering: .acquiring)
      let result = body(&stripe)
      stripe.order.store(0, ordering: .releasing)
      return result
    }
  }

  // MARK: - Regions, under the lock of their stripe

  private func makeRegion(_ stripe: Int, _ list: Int, _ state: inout Stripe) -> BlockRegion? {
    let slotSize = (list + 1) * BlockPages.pageSize
    guard let region = BlockRegion.map(stripe: stripe, slotSize: slotSize) else { return nil }
    state.statistics.mapped += BlockRegion.size
    state.returned[list].insert(region)
    region.listNumber = .returned
    return region
  }

  /// Puts a region into the list that it belongs to now.
  private func move(_ region: BlockRegion, from before: BlockRegion.List, _ list: Int, _ state: inout Stripe) {
    let now = region.rightList
    if now == before { return }
    switch before {
    case .resident: state.resident[list].remove(region)
    case .returned: state.returned[list].remove(region)
    case .none: break
    }
    switch now {
    case .resident: state.resident[list].insert(region)
    case .returned: state.returned[list].insert(region)
    case .none: break
    }
    region.listNumber = now
  }

  /// False if no free slot has memory.
  private func trimFirst(_ list: Int, _ state: inout Stripe) -> Bool {
    guard let region = state.resident[list].first else { return false }
    state.statistics.idle -= region.returnFreeSlots()
    move(region, from: .resident, list, &state)
    return true
  }

  private func unmapEmpty(_ list: Int, _ state: inout Stripe) {
    var next = state.returned[list].first
    while let region = next {
      next = region.next
      guard region.isEmpty else { continue }
      state.returned[list].remove(region)
      state.statistics.mapped -= BlockRegion.size
      region.unmap()
    }
  }
}

extension UInt {
  fileprivate var pointer: UnsafeMutableRawPointer? { unsafe UnsafeMutableRawPointer(bitPattern: self) }
}
