internal import Foundation

/// A clock for the time of day, for data that are kept by their age, not for measuring durations. It may be set, also
/// backwards.
///
/// It is safe to use from any thread.
public struct WallClock: Sendable {
  private let read: @Sendable () -> Int64

  /// Creates a clock that returns the result of `read`: whole seconds since 1970. `read` is called from any thread,
  /// once for each commit.
  public init(_ read: @escaping @Sendable () -> Int64) { self.read = read }

  /// The whole seconds since 1970, at least zero.
  public var seconds: Int64 { max(0, read()) }

  /// The clock of the machine.
  public static let system = WallClock { Int64(Date().timeIntervalSince1970) }
}
