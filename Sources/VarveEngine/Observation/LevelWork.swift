/// What compactions into one level did since the engine opened. Of flushes, which write to level 0 and now and
/// then deeper, `EngineStatistics.Work` has the sum.
public struct LevelWork: Sendable, Hashable {
  /// Compactions that ended well and wrote tables to it.
  public internal(set) var compactionCount: UInt64 = 0
  /// Bytes of tables that they read, those of the level above included.
  public internal(set) var bytesRead: UInt64 = 0
  /// Bytes of tables that they wrote.
  public internal(set) var bytesWritten: UInt64 = 0
}
