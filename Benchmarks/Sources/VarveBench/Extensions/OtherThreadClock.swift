import Foundation
import Synchronization

/// A clock for the CPU time of a thread, which another thread reads.
final class OtherThreadClock: Sendable {
  private let clock = Mutex<clockid_t?>(nil)

  /// Selects the calling thread, unless a thread was selected already. The time counts from the beginning of the
  /// thread.
  func note() {
    clock.withLock { clock in
      guard clock == nil else { return }
      var found = clockid_t()
      if pthread_getcpuclockid(pthread_self(), &found) == 0 { clock = found }
    }
  }

  /// Returns the CPU time in nanoseconds, or 0 if no thread was selected or it has ended.
  func now() -> UInt64 {
    guard let clock = clock.withLock({ $0 }) else { return 0 }
    var time = timespec()
    guard clock_gettime(clock, &time) == 0 else { return 0 }
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }
}
