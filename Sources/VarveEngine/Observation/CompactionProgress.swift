/// The progress of a manual compaction.
public struct CompactionProgress: Sendable, Hashable {
  /// Bytes of tables that are merged already.
  public var bytesDone: UInt64
  /// Bytes of tables that wait to be merged.
  public var bytesTotal: UInt64
}
