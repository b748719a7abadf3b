/// How large what belongs to a task may be.
public enum TaskLimits {
  /// The bytes of a payload.
  public static let payloadSize = 1 << 20
  /// The bytes of a checkpoint.
  public static let checkpointSize = 1 << 20
  /// The bytes of the text of an error that are kept.
  public static let errorSize = 4 << 10
  /// How many errors of a task are kept: the last ones.
  public static let errorCount = 8
  /// The bytes of a result.
  public static let resultSize = 64 << 10
  /// The bytes of the key of a unique task.
  public static let uniqueKeySize = 1 << 10
  /// The bytes of a limit key.
  public static let limitKeySize = 255
  /// How many tasks a task depends on.
  public static let parentCount = 1_000
  /// The bytes of all headers.
  public static let headersSize = 4 << 10
  /// How many tags a task has.
  public static let tagCount = 16
  /// The bytes of a tag.
  public static let tagSize = 64
  /// The bytes of a kind.
  public static let kindSize = 255
}
