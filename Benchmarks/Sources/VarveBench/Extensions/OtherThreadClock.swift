import Foundation
import Synchronization

/// The CPU time of a thread that another one asks for.
final class OtherThreadClock: Sendable {
  private let clock = Mutex<clockid_t?>(nil)

  /// From now on it is that of the calling thread, since its beginning.
  func note() {
    clock.withLock { clock in
      guard clock == nil else { return }
      var found = clockid_t()
      if pthread_getcpuclockid(pthread_self(), &found) == 0 { clock = found }
    }
  }

  /// Nanoseconds; 0 where no thread is known, or it has ended.
  func now() -> UInt64 {
    guard let clock = clock.withLock({ $0 }) else { return 0 }
    var time = timespec()
    guard clock_gettime(clock, &time) == 0 else { return 0 }
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }
}
