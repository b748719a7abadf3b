internal import Synchronization

/// Counts of what a database has done since it was opened.
public struct DatabaseStatistics: Sendable, Hashable {
  /// The number of concurrent writes that ended at a change which a non-concurrent extension receives, and ran again
  /// holding the writer.
  public let writesThatTookTheWriter: UInt64
  /// The number of aside commits that were acknowledged.
  public let asideCommits: UInt64
  /// The number of times that the closure of an aside commit ran again, because something that it had read was changed.
  public let asideConflicts: UInt64
}

/// The counters of `DatabaseStatistics`.
struct DatabaseCounts: ~Copyable, Sendable {
  let writesThatTookTheWriter = Atomic<UInt64>(0)
  let asideCommits = Atomic<UInt64>(0)
  let asideConflicts = Atomic<UInt64>(0)

  var statistics: DatabaseStatistics {
    DatabaseStatistics(
      writesThatTookTheWriter: writesThatTookTheWriter.load(ordering: .relaxed),
      asideCommits: asideCommits.load(ordering: .relaxed), asideConflicts: asideConflicts.load(ordering: .relaxed))
  }
}
