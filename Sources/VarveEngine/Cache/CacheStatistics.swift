import Synchronization

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#endif

/// The counters of the block cache since its creation.
struct CacheStatistics: Sendable, Equatable {
  /// The number of lookups that found their block. Threads that share a stripe may lose a few (see
  /// `CacheLookupCounters`).
  var hitCount: UInt64 = 0
  /// The number of lookups that did not find their block.
  var missCount: UInt64 = 0
  var insertedCount: UInt64 = 0
  var insertedBytes: UInt64 = 0
  var evictedCount: UInt64 = 0
  var evictedBytes: UInt64 = 0
  /// The number of blocks that the cache could not keep, so that their pin owned them alone.
  var refusedCount: UInt64 = 0
}

/// The counters of lookups, separate from the memory that lookups read.
///
/// Hits and misses are counted in one of 16 stripes of two cache lines each, chosen by thread, by a load and a store
/// instead of an atomic addition, which would cost as much as the lookup's own. If two threads share a stripe, a count
/// is lost now and then, which is acceptable for statistics.
///
/// # Safety
/// The value is the only owner of the stripes; the number of a stripe is masked.
@safe
struct CacheLookupCounters: ~Copyable, @unchecked Sendable {
  // Sendable: atomics only.
  private struct Stripe: ~Copyable {
    let hits = Atomic<UInt64>(0)
    let misses = Atomic<UInt64>(0)
  }

  private let stripes: UnsafeMutableRawPointer
  private static let stripeCount = 16
  /// The size of a stripe: two cache lines, because some processors fetch them in pairs.
  private static let stripeSize = 128

  init() {
    unsafe stripes = UnsafeMutableRawPointer.allocate(
      byteCount: CacheLookupCounters.stripeCount * CacheLookupCounters.stripeSize,
      alignment: CacheLookupCounters.stripeSize)
    for number in 0..<CacheLookupCounters.stripeCount {
      unsafe (stripes + number * CacheLookupCounters.stripeSize).bindMemory(to: Stripe.self, capacity: 1)
        .initialize(to: Stripe())
    }
  }

  deinit { unsafe stripes.deallocate() }

  @inline(__always)
  func countHit() {
    let stripe = unsafe stripe(CacheLookupCounters.threadStripe)
    unsafe stripe.pointee.hits.store(stripe.pointee.hits.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
  }

  @inline(__always)
  func countMiss() {
    let stripe = unsafe stripe(CacheLookupCounters.threadStripe)
    unsafe stripe.pointee.misses.store(stripe.pointee.misses.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
  }

  func add(to result: inout CacheStatistics) {
    for number in 0..<CacheLookupCounters.stripeCount {
      let stripe = unsafe stripe(number)
      result.hitCount += unsafe stripe.pointee.hits.load(ordering: .relaxed)
      result.missCount += unsafe stripe.pointee.misses.load(ordering: .relaxed)
    }
  }

  @inline(__always)
  private func stripe(_ number: Int) -> UnsafeMutablePointer<Stripe> {
    unsafe (stripes + number &* CacheLookupCounters.stripeSize).assumingMemoryBound(to: Stripe.self)
  }

  /// The stripe of the calling thread, by the address of its descriptor: the descriptors of threads are megabytes
  /// apart.
  @inline(__always)
  private static var threadStripe: Int {
    #if canImport(Darwin)
      let bits = unsafe UInt64(UInt(bitPattern: pthread_self()))
    #else
      let bits = UInt64(pthread_self())
    #endif
    return Int(truncatingIfNeeded: (bits &* 0x9e37_79b9_7f4a_7c15) >> 60)
  }
}
