/// The identity of a task in its database.
///
/// It is assigned when the task is enqueued, stays the same through all attempts, and is never assigned again.
public struct TaskID: Hashable, Comparable, Codable, Sendable, RawRepresentable, CustomStringConvertible {
  /// The number of the task. The first task of a database has 1.
  public let rawValue: UInt64

  /// Creates the identity with a number.
  public init(rawValue: UInt64) { self.rawValue = rawValue }

  /// Returns whether the left identity was assigned earlier. Tasks run in the order of their commits, not in this
  /// order.
  public static func < (left: TaskID, right: TaskID) -> Bool { left.rawValue < right.rawValue }

  /// The number in decimal.
  public var description: String { "\(rawValue)" }
}
