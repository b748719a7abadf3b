/// The maximum sizes and counts of a task's properties.
enum TaskLimits {
  /// The maximum size of a payload in bytes.
  static let payloadSize = 1 << 20
  /// The maximum size of a checkpoint in bytes.
  static let checkpointSize = 1 << 20
  /// The maximum number of bytes of an error's text that are kept.
  static let errorSize = 4 << 10
  /// The number of errors of a task that are kept: the last ones.
  static let errorCount = 8
  /// The maximum size of a result in bytes.
  static let resultSize = 64 << 10
  /// The maximum size of a unique key in bytes.
  static let uniqueKeySize = 1 << 10
  /// The maximum size of a limit key in bytes.
  static let limitKeySize = 255
  /// The maximum number of signals that a parked task waits for.
  static let signalCount = 1_000
  /// The maximum number of tasks that a task depends on.
  static let parentCount = 1_000
  /// The maximum size of all headers together in bytes.
  static let headersSize = 4 << 10
  /// The maximum number of tags of a task.
  static let tagCount = 16
  /// The maximum size of a tag in bytes.
  static let tagSize = 64
  /// The maximum size of a kind in bytes.
  static let kindSize = 255
}
