internal import Foundation

/// The time of day: for what is kept by its age, not for measuring. It may be set, and go back.
struct WallClock: Sendable {
  private let read: @Sendable () -> Int64

  /// A clock that shows what `read` says: seconds since 1970.
  init(_ read: @escaping @Sendable () -> Int64) { self.read = read }

  /// The whole seconds since 1970, not before that.
  var seconds: Int64 { max(0, read()) }

  /// That of the machine.
  static let system = WallClock { Int64(Date().timeIntervalSince1970) }
}
