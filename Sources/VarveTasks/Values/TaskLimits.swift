/// The maximum sizes and counts of a task's properties.
public enum TaskLimits {
  /// The maximum size of a payload in bytes.
  public static let payloadSize = 1 << 20
  /// The maximum size of a checkpoint in bytes.
  public static let checkpointSize = 1 << 20
  /// The maximum number of bytes of an error's text that are kept.
  public static let errorSize = 4 << 10
  /// The number of errors of a task that are kept: the last ones.
  public static let errorCount = 8
  /// The maximum size of a result in bytes.
  public static let resultSize = 64 << 10
  /// The maximum size of a unique key in bytes.
  public static let uniqueKeySize = 1 << 10
  /// The maximum size of a limit key in bytes.
  public static let limitKeySize = 255
  /// The maximum number of signals that a parked task waits for.
  public static let signalCount = 1_000
  /// The maximum number of tasks that a task depends on.
  public static let parentCount = 1_000
  /// The maximum size of all headers together in bytes.
  public static let headersSize = 4 << 10
  /// The maximum number of tags of a task.
  public static let tagCount = 16
  /// The maximum size of a tag in bytes.
  public static let tagSize = 64
  /// The maximum size of a kind in bytes.
  public static let kindSize = 255
}
