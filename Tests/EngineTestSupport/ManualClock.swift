internal import Synchronization
public import VarveEngine

/// A clock that advances only on request.
///
/// Safe from any thread.
public final class ManualClock: EngineClock {
  private let time: Atomic<UInt64>

  /// Creates a clock that shows `start` nanoseconds.
  public init(_ start: UInt64 = 0) { time = Atomic(start) }

  /// Returns the time of the clock in nanoseconds.
  public func now() -> UInt64 { time.load(ordering: .relaxed) }

  /// Advances the clock by the time of the pause, and returns at once.
  public func pause(_ nanoseconds: UInt64) { advance(nanoseconds) }

  /// Advances the clock by a number of nanoseconds.
  public func advance(_ nanoseconds: UInt64) { time.add(nanoseconds, ordering: .relaxed) }

  /// Advances the clock to a time. Does nothing if the clock is past it.
  public func advance(to target: UInt64) { time.max(target, ordering: .relaxed) }
}
