/// The parts of `EngineStatistics` other than tables and memory.
extension EngineStatistics {
  /// The log.
  public struct Log: Sendable, Hashable, Codable {
    /// The number of segments that are needed, including the current one.
    ///
    /// For a read-only engine and a follower, they are the segments of the writer's log, as of the last step.
    public let segmentCount: Int
    /// The bytes of these segments.
    public let bytes: UInt64
    /// The bytes of records appended since the engine opened.
    public let bytesAppended: UInt64
    /// Every logged commit up to this sequence survives a power loss.
    public let durableSequence: SequenceNumber
    /// Every commit up to this sequence is visible.
    public let visibleSequence: SequenceNumber

    init(_ pipeline: CommitPipeline) {
      // The durable sequence is loaded first, because every durable commit is visible.
      durableSequence = pipeline.log.durableSequence
      visibleSequence = pipeline.visible
      let extent = pipeline.log.extent
      segmentCount = extent.segmentCount
      bytes = UInt64(extent.bytes)
      // The position after the first segment's header counts as zero bytes.
      let position = pipeline.log.appendedPosition.value
      bytesAppended = position - min(position, UInt64(LogFormat.headerBlockSize))
    }

    private enum CodingKeys: String, CodingKey {
      case segmentCount = "segments"
      case bytes, bytesAppended, durableSequence, visibleSequence
    }
  }

  /// The work of flushes and compactions since the engine opened.
  public struct Work: Sendable, Hashable, Codable {
    /// The number of successful flushes.
    public let flushCount: UInt64
    /// Bytes of the memtables that they wrote to tables.
    public let bytesFlushRead: UInt64
    /// Bytes of tables written by flushes.
    public let bytesFlushed: UInt64
    /// The number of successful compactions that wrote tables.
    public let compactionCount: UInt64
    /// The number of compactions that moved tables to another level without reading them.
    public let moveCount: UInt64
    /// Bytes of tables that compactions read.
    public let bytesCompactionRead: UInt64
    /// Bytes of tables that compactions wrote.
    public let bytesCompactionWritten: UInt64
    /// The number of tables that were dropped without being read, because range tombstones cover all of their entries.
    public let droppedUnreadCount: UInt64
    /// The number of range tombstones that the engine wrote over runs of dead keys.
    public let coveredRunCount: UInt64
    /// The number of failed flushes, compactions and syncs of the log.
    public let failureCount: UInt64
    private let storedLevels: ByLevel<LevelWork>

    /// The compactions by output level, from level 0.
    public var levels: [LevelWork] { storedLevels.elements }

    init(_ counters: EngineCounters) {
      flushCount = counters.flushCount
      bytesFlushRead = counters.bytesFlushRead
      bytesFlushed = counters.bytesFlushed
      let levels = counters.levelWork
      storedLevels = ByLevel(elements: levels)
      compactionCount = counters.compactionCount
      moveCount = counters.moveCount
      bytesCompactionRead = levels.reduce(0) { $0 + $1.bytesRead }
      bytesCompactionWritten = levels.reduce(0) { $0 + $1.bytesWritten }
      droppedUnreadCount = counters.droppedUnreadCount
      coveredRunCount = counters.coveredRunCount
      failureCount = counters.failureCount
    }

    private enum CodingKeys: String, CodingKey {
      case flushCount = "flushes"
      case bytesFlushRead, bytesFlushed
      case compactionCount = "compactions"
      case moveCount = "moves"
      case bytesCompactionRead, bytesCompactionWritten
      case droppedUnreadCount = "tablesDroppedUnread"
      case coveredRunCount = "coveredRuns"
      case failureCount = "failures"
      case storedLevels = "levels"
    }
  }

  /// The three costs of a log-structured merge-tree. Just after an open, the write amplification is meaningless until a
  /// few memtables were flushed.
  public struct Amplification: Sendable, Hashable, Codable {
    /// The bytes written to the log and to tables for each committed byte since the engine opened, or 0 without
    /// commits.
    ///
    /// Committed bytes are those of log records, or of memtables for entries that were not logged.
    public let write: Double
    /// The maximum number of tables that a read of one key searches, in the family with the most. Filters avoid nearly
    /// all that don't have the key.
    public let read: Int
    /// The bytes of all tables per byte on the last level of its family, or 0 without tables.
    public let space: Double

    init(families: FamilySums, work: Work, log: Log, unlogged: UInt64) {
      let committed = log.bytesAppended + unlogged
      let written = log.bytesAppended + work.bytesFlushed + work.bytesCompactionWritten
      write = committed == 0 ? 0 : Double(written) / Double(committed)
      read = families.searchedMaximum
      let total = families.levels.reduce(0) { $0 + $1.bytes }
      space = families.bottomBytes == 0 ? 0 : Double(total) / Double(families.bottomBytes)
    }
  }

  /// The time that writers waited for one cause, since the engine opened.
  public struct Stall: Sendable, Hashable, Codable {
    /// The cause.
    public let cause: StallCause
    /// The number of waits.
    public let count: UInt64
    /// The total time of all waits.
    public let nanoseconds: UInt64
  }

  /// The block cache, since the engine opened. Threads may lose a few hits and misses.
  public struct Cache: Sendable, Hashable, Codable {
    /// The number of lookups that found their block.
    public let hitCount: UInt64
    /// The number of lookups that did not find their block, which was then read.
    public let missCount: UInt64
    /// The number of inserted blocks.
    public let insertedCount: UInt64
    /// Bytes of the inserted blocks.
    public let insertedBytes: UInt64
    /// The number of evicted blocks.
    public let evictedCount: UInt64
    /// Bytes of the evicted blocks.
    public let evictedBytes: UInt64
    /// The number of blocks that were not inserted for lack of room.
    public let refusedCount: UInt64
    /// The current size in bytes.
    public let bytes: Int
    /// The current capacity in bytes.
    public let capacity: Int

    /// The number of hits per lookup, from 0 to 1, or 0 without lookups.
    public var hitRatio: Double {
      hitCount + missCount == 0 ? 0 : Double(hitCount) / Double(hitCount + missCount)
    }

    init(_ cache: BlockCache) {
      let counts = cache.statistics
      hitCount = counts.hitCount
      missCount = counts.missCount
      insertedCount = counts.insertedCount
      insertedBytes = counts.insertedBytes
      evictedCount = counts.evictedCount
      evictedBytes = counts.evictedBytes
      refusedCount = counts.refusedCount
      bytes = cache.usedBytes
      capacity = cache.capacity
    }

    private enum CodingKeys: String, CodingKey {
      case hitCount = "hits"
      case missCount = "misses"
      case insertedCount = "inserted"
      case insertedBytes
      case evictedCount = "evicted"
      case evictedBytes
      case refusedCount = "refused"
      case bytes, capacity
    }
  }

  /// Live snapshots and cursors, and lookups that retain memtables or tables.
  ///
  /// Old ones retain overwritten entries, and a cursor retains the files that it began with.
  public struct Readers: Sendable, Hashable, Codable {
    /// The number of live snapshots.
    public let snapshotCount: Int
    /// The number of live cursors.
    public let cursorCount: Int
    /// The oldest commit that any of them sees.
    public let oldestSequence: SequenceNumber?
    /// The age of the oldest snapshot.
    public let oldestSnapshotAgeNanoseconds: UInt64?
    /// The age of the oldest cursor.
    public let oldestCursorAgeNanoseconds: UInt64?
    /// The minimum time that the oldest lookup has run, or `nil` if there is none.
    ///
    /// Lookups are `get`, `multiGet`, and the body of a `withValue`. Only those count that retain memtables or open
    /// tables which the engine has replaced since.
    public let oldestReadAgeNanoseconds: UInt64?
    /// The number of flushed memtables that wait for such lookups to end.
    public let keptMemTableCount: Int
    /// Bytes of memory that wait for such lookups to end: memtables, and open tables without their blocks.
    public let keptBytes: Int
    /// The number of replaced tables that lookups, cursors or jobs still use. Their files are removed later.
    public let keptFileCount: Int
    /// The bytes of these files.
    public let keptFileBytes: UInt64

    init(_ background: BackgroundWork) {
      let (held, now) = background.snapshots.summary
      let deferredReleases = background.epochs.deferredReleases
      oldestReadAgeNanoseconds = deferredReleases?.ageNanoseconds
      keptMemTableCount = deferredReleases?.weight.memTableCount ?? 0
      keptBytes = deferredReleases?.weight.bytes ?? 0
      keptFileCount = background.obsolete.pinnedCount
      keptFileBytes = background.obsolete.pinnedBytes
      snapshotCount = held.snapshotCount
      cursorCount = held.cursorCount
      oldestSequence = held.oldestSequence
      oldestSnapshotAgeNanoseconds = held.oldestSnapshotSince.map { now - min($0, now) }
      oldestCursorAgeNanoseconds = held.oldestCursorSince.map { now - min($0, now) }
    }

    private enum CodingKeys: String, CodingKey {
      case snapshotCount = "snapshots"
      case cursorCount = "cursors"
      case oldestSequence
      case oldestSnapshotAgeNanoseconds = "oldestSnapshotAge"
      case oldestCursorAgeNanoseconds = "oldestCursorAge"
      case oldestReadAgeNanoseconds = "oldestReadAge"
      case keptMemTableCount = "keptMemTables"
      case keptBytes
      case keptFileCount = "keptFiles"
      case keptFileBytes
    }
  }

  /// The durations of operations since the engine opened, as seen by their callers.
  ///
  /// One in 64 puts, writes, gets and seeks is timed; syncs, flushes and compactions all are.
  public struct Latencies: Sendable, Hashable, Codable {
    /// Puts and deletes, including all waits.
    public let put: LatencyHistogram
    /// Commits of batches.
    public let write: LatencyHistogram
    /// Commits of transactions, with the check of what they read, including those with a conflict.
    public let transaction: LatencyHistogram
    /// Lookups of one key.
    public let get: LatencyHistogram
    /// Lookups of several keys by one call.
    public let multiGet: LatencyHistogram
    /// Seeks of cursors to a key.
    public let seek: LatencyHistogram
    /// Syncs of the log, each for all commits that waited for it.
    public let sync: LatencyHistogram
    /// Flushes.
    public let flush: LatencyHistogram
    /// Compactions that wrote tables.
    public let compaction: LatencyHistogram

    init(_ latencies: OperationLatencies) {
      put = latencies.put.histogram
      write = latencies.write.histogram
      transaction = latencies.transaction.histogram
      get = latencies.get.histogram
      multiGet = latencies.multiGet.histogram
      seek = latencies.seek.histogram
      sync = latencies.sync.histogram
      flush = latencies.flush.histogram
      compaction = latencies.compaction.histogram
    }

    /// All histograms with their names.
    public var all: [(name: String, histogram: LatencyHistogram)] {
      [
        ("put", put), ("write", write), ("transaction", transaction), ("get", get), ("multiGet", multiGet),
        ("seek", seek), ("sync", sync), ("flush", flush), ("compaction", compaction),
      ]
    }
  }
}
