public import Foundation
internal import Synchronization

/// The three clocks that a scheduler reads, and its way to wait. Tests use a clock that they advance themselves.
public protocol SchedulerClock: Sendable {
  /// The time of day, used for dates. It may be set forward and back.
  var wallNow: Date { get }
  /// The time of a clock that advances while the machine sleeps too, used for delays.
  var continuousNow: Duration { get }
  /// The time of a clock that does not advance while the machine sleeps, used for time limits.
  var suspendingNow: Duration { get }
  /// Returns when `continuousNow` has reached a time, or throws `CancellationError`.
  func sleep(until deadline: Duration) async throws
}

/// The clocks of the system.
public struct SystemSchedulerClock: SchedulerClock {
  private static let continuousStart = ContinuousClock.now
  private static let suspendingStart = SuspendingClock.now

  /// Creates the clocks of the system.
  public init() {}

  /// The time of day.
  public var wallNow: Date { Date() }
  /// The time since the first call.
  public var continuousNow: Duration { Self.continuousStart.duration(to: .now) }
  /// The time since the first call, without the time in which the machine slept.
  public var suspendingNow: Duration { Self.suspendingStart.duration(to: .now) }

  /// The maximum time of one sleep. The system counts the nanoseconds in 64 bits.
  private static let sleepMaximum = Duration.seconds(1 << 30)

  /// Waits as `Task.sleep(until:)` does, also for a time that the system can't count.
  public func sleep(until deadline: Duration) async throws {
    let deadline = max(deadline, .zero)
    var end: Duration
    repeat {
      end = min(deadline, continuousNow + Self.sleepMaximum)
      try await Task.sleep(until: Self.continuousStart.advanced(by: end), tolerance: .zero, clock: .continuous)
    } while end < deadline
  }
}
