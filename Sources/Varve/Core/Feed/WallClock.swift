internal import Foundation

/// The time of day: for what is kept by its age, not for measuring. It may be set, and go back.
///
/// Safe from any thread.
public struct WallClock: Sendable {
  private let read: @Sendable () -> Int64

  /// A clock that shows what `read` says: whole seconds since 1970. It is called from any thread, once a commit.
  public init(_ read: @escaping @Sendable () -> Int64) { self.read = read }

  /// The whole seconds since 1970, not before that.
  public var seconds: Int64 { max(0, read()) }

  /// That of the machine.
  public static let system = WallClock { Int64(Date().timeIntervalSince1970) }
}
