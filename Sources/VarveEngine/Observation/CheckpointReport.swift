/// The content and cost of a checkpoint.
public struct CheckpointReport: Sendable, Hashable {
  /// The last commit in the checkpoint.
  public internal(set) var sequence: SequenceNumber
  /// The number of hard-linked tables, which take no space as long as the database has them, too.
  public internal(set) var tablesLinked = 0
  /// The number of tables that were copied because the file system could not link them.
  public internal(set) var tablesCopied = 0
  /// Bytes of the tables that were copied.
  public internal(set) var tableBytesCopied: UInt64 = 0
  /// The number of log segments that were copied.
  public internal(set) var segmentsCopied = 0
  /// Bytes of the log that were copied.
  public internal(set) var logBytesCopied: UInt64 = 0
}
