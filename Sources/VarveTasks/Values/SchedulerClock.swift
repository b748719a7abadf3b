public import Foundation
internal import Synchronization

/// The three clocks that a scheduler reads, and how it waits. Tests give it one that they move themselves.
public protocol SchedulerClock: Sendable {
  /// The time of day: for dates. May be set back and forth.
  var wallNow: Date { get }
  /// Time that passes while the machine sleeps, too: for delays.
  var continuousNow: Duration { get }
  /// Time that does not pass while the machine sleeps: for time limits.
  var suspendingNow: Duration { get }
  /// Returns when `continuousNow` has reached a time, or throws `CancellationError`.
  func sleep(until deadline: Duration) async throws
}

/// The clocks of the system.
public struct SystemSchedulerClock: SchedulerClock {
  private static let continuousStart = ContinuousClock.now
  private static let suspendingStart = SuspendingClock.now

  /// The clocks of the system.
  public init() {}

  /// The time of day.
  public var wallNow: Date { Date() }
  /// Since the first call.
  public var continuousNow: Duration { Self.continuousStart.duration(to: .now) }
  /// Since the first call, without the time in which the machine slept.
  public var suspendingNow: Duration { Self.suspendingStart.duration(to: .now) }

  /// As `Task.sleep(until:)`.
  public func sleep(until deadline: Duration) async throws {
    try await Task.sleep(until: Self.continuousStart.advanced(by: deadline), tolerance: .zero, clock: .continuous)
  }
}
