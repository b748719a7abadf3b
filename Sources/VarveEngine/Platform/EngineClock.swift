/// Time as a value that is passed in, so that tests and simulations own it.
///
/// Safe from any thread.
public protocol EngineClock: Sendable {
  /// Nanoseconds since some fixed instant; never goes back.
  func now() -> UInt64
  /// Returns when at least so many nanoseconds have passed.
  func pause(_ nanoseconds: UInt64)
}
