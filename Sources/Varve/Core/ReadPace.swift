internal import Foundation
internal import Synchronization

/// Spreads the work of many long reads, so that the processors have time for everything else.
///
/// Each read has a thread. With more of them at work than a few for each processor, a thread that wakes to do a little,
/// such as a cheap read or the end of a commit, would wait for its turn among all of them. So a long read sleeps from
/// time to time, in proportion to its own processor time and to the number of long reads. Together they use the same
/// time as without it. Decision 0125 has the measurements.
final class ReadPace: Sendable {
  /// The number of long reads that need no pauses.
  private let places: Int
  private let sleep: @Sendable (_ nanoseconds: UInt64) -> Void
  private let count = Atomic<Int>(0)

  /// The longest sleep before the task is checked for cancellation again.
  private static var sleepMaximum: UInt64 { 5_000_000 }
  /// The longest pause, so that a read makes progress even if the number of reads is wrong.
  private static var pauseMaximum: UInt64 { 500_000_000 }

  /// Creates a pace for reads whose threads wait in `sleep`.
  init(
    places: Int = 2 * ProcessInfo.processInfo.activeProcessorCount,
    sleep: @escaping @Sendable (_ nanoseconds: UInt64) -> Void = { Thread.sleep(forTimeInterval: Double($0) / 1e9) }
  ) {
    self.places = places
    self.sleep = sleep
  }

  func begin() { count.add(1, ordering: .relaxed) }
  func end() { count.subtract(1, ordering: .relaxed) }

  /// Sleeps after `nanoseconds` of work. Throws `CancellationError` as soon as the task is cancelled.
  func pause(after nanoseconds: UInt64) throws {
    let excess = count.load(ordering: .relaxed) - places
    guard excess > 0 else { return }
    var left = min(nanoseconds * UInt64(excess) / UInt64(places), Self.pauseMaximum)
    while left > 0 {
      try Task.checkCancellation()
      let next = min(left, Self.sleepMaximum)
      sleep(next)
      left -= next
    }
  }

  /// The processor time of the calling thread in nanoseconds.
  static var processorTime: UInt64 {
    var time = timespec()
    // Without such a clock, reads are not paused.
    guard unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0 else { return 0 }
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }
}
