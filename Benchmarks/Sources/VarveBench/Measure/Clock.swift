import Foundation

/// The monotonic clock in nanoseconds. One call costs about 22 ns, so rows read it once an operation.
enum Clock {
  @inline(__always)
  static func now() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec)
  }
}

/// The CPU time of the calling thread in nanoseconds. A call enters the kernel, so it is read around many operations.
enum ThreadClock {
  static func now() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec)
  }
}
