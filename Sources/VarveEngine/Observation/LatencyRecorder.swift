internal import Synchronization

/// Counts durations in the buckets of a `LatencyHistogram` without a lock and without allocating.
///
/// # Safety
/// The object is the only owner of its words; the index of a bucket is below their count by construction.
///
/// # Concurrency
/// Safe from any thread. A record is two relaxed additions and a comparison; a concurrently read histogram may include
/// a count whose duration is not in its sum yet.
@safe
final class LatencyRecorder: @unchecked Sendable {
  // Sendable: the pointer is stable for life, and what it points to is atomic.
  private let words: UnsafeMutablePointer<Atomic<UInt64>>
  private let total = Atomic<UInt64>(0)
  private let maximum = Atomic<UInt64>(0)

  /// The memory of a recorder.
  static let memorySize = LatencyBuckets.count * 8 + 64

  init() {
    unsafe words = UnsafeMutablePointer.allocate(capacity: LatencyBuckets.count)
    for index in 0..<LatencyBuckets.count { unsafe (words + index).initialize(to: Atomic(0)) }
  }

  deinit {
    unsafe words.deinitialize(count: LatencyBuckets.count)
    unsafe words.deallocate()
  }

  func record(_ nanoseconds: UInt64) {
    unsafe words[LatencyBuckets.index(nanoseconds)].wrappingAdd(1, ordering: .relaxed)
    total.wrappingAdd(nanoseconds, ordering: .relaxed)
    if nanoseconds > maximum.load(ordering: .relaxed) { maximum.max(nanoseconds, ordering: .relaxed) }
  }

  /// The durations counted so far.
  var histogram: LatencyHistogram {
    let buckets = (0..<LatencyBuckets.count).map { unsafe words[$0].load(ordering: .relaxed) }
    return LatencyHistogram(
      buckets: buckets, totalNanoseconds: total.load(ordering: .relaxed),
      maximumNanoseconds: maximum.load(ordering: .relaxed))
  }
}
