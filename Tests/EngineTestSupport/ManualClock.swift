internal import Synchronization
public import VarveEngine

/// A clock that advances only on request.
///
/// Safe from any thread.
public final class ManualClock: EngineClock {
  private let time: Atomic<UInt64>

  /// A clock that shows `start` nanoseconds.
  public init(_ start: UInt64 = 0) { time = Atomic(start) }

  /// What the clock shows.
  public func now() -> UInt64 { time.load(ordering: .relaxed) }

  /// Lets the time pass at once.
  public func pause(_ nanoseconds: UInt64) { advance(nanoseconds) }

  /// Lets time pass.
  public func advance(_ nanoseconds: UInt64) { time.add(nanoseconds, ordering: .relaxed) }

  /// Advances to a point in time; does nothing if it has passed.
  public func advance(to target: UInt64) { time.max(target, ordering: .relaxed) }
}
