/// A task that waits for a time, as its row says.
struct TimedTask: Sendable {
  let id: TaskID
  /// The key of the row.
  var key: [UInt8]
  /// The time of day at which the task is due, in milliseconds since 1970.
  let due: Int64
  /// The time on the continuous clock at which the task is due, or `nil` if it is due at a time of day.
  let deadline: Duration?
}
