/// The identity of a task in its database: given when it is enqueued, the same through all its attempts, never given again.
public struct TaskID: Hashable, Comparable, Codable, Sendable, RawRepresentable, CustomStringConvertible {
  /// The number. The first task of a database has 1.
  public let rawValue: UInt64

  /// The identity with a number.
  public init(rawValue: UInt64) { self.rawValue = rawValue }

  /// Earlier identities first. The order in which tasks run is that of their commits, not this.
  public static func < (left: TaskID, right: TaskID) -> Bool { left.rawValue < right.rawValue }

  /// The number in decimal.
  public var description: String { "\(rawValue)" }
}
