internal import Synchronization

/// Counts of what a database has done since it was opened.
public struct DatabaseStatistics: Sendable, Hashable {
  /// The number of concurrent writes that ended at a change which a non-concurrent extension receives, and ran again
  /// holding the writer.
  public let writesThatTookTheWriter: UInt64
  /// The number of independent commits that were acknowledged.
  public let independentCommits: UInt64
  /// The number of times that the closure of an independent commit ran again, because something that it had read was
  /// changed.
  public let independentConflicts: UInt64
}

/// The counters of `DatabaseStatistics`.
struct DatabaseCounts: ~Copyable, Sendable {
  let writesThatTookTheWriter = Atomic<UInt64>(0)
  let independentCommits = Atomic<UInt64>(0)
  let independentConflicts = Atomic<UInt64>(0)

  var statistics: DatabaseStatistics {
    DatabaseStatistics(
      writesThatTookTheWriter: writesThatTookTheWriter.load(ordering: .relaxed),
      independentCommits: independentCommits.load(ordering: .relaxed),
      independentConflicts: independentConflicts.load(ordering: .relaxed))
  }
}
