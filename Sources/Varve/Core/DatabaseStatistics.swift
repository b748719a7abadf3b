internal import Synchronization

/// What a database has done since it was opened.
public struct DatabaseStatistics: Sendable, Hashable {
  /// Concurrent writes that ended at a change which a non-concurrent extension receives, and ran again holding the writer.
  public let writesThatTookTheWriter: UInt64
  /// Commits beside the writer that were acknowledged.
  public let asideCommits: UInt64
  /// How often the closure of one ran again, because something that it had read was changed.
  public let asideConflicts: UInt64
}

/// The same, as it is counted.
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
