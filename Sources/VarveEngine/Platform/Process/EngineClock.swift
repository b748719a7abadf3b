#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// A source of time that is passed in, so that tests and simulations control it.
///
/// Safe from any thread.
public protocol EngineClock: Sendable {
  /// Returns the nanoseconds since a fixed point in time. The value never decreases.
  func now() -> UInt64
  /// Returns once at least `nanoseconds` have passed.
  func pause(_ nanoseconds: UInt64)
}

/// The machine's monotonic clock, which stops while the machine sleeps.
public struct SystemClock: EngineClock {
  /// Creates the clock of this machine.
  public init() {}

  /// Returns the nanoseconds since the machine started.
  public func now() -> UInt64 {
    var time = timespec()
    #if canImport(Darwin)
      let clock = CLOCK_UPTIME_RAW
    #else
      let clock = CLOCK_MONOTONIC
    #endif
    guard unsafe clock_gettime(clock, &time) == 0 else { fatalError("the system has no monotonic clock") }
    return UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec)
  }

  /// Sleeps for the whole time, even if signals interrupt it.
  public func pause(_ nanoseconds: UInt64) {
    var time = timespec()
    time.tv_sec = Int(nanoseconds / 1_000_000_000)
    time.tv_nsec = Int(nanoseconds % 1_000_000_000)
    var rest = timespec()
    while unsafe nanosleep(&time, &rest) != 0 && errno == EINTR { time = rest }
  }
}
