/// The parts of `EngineStatistics` that are no tables and no memory.
extension EngineStatistics {
  /// The log.
  public struct Log: Sendable, Hashable {
    /// Segments that hold something which is needed, the current one included. Of a read-only engine and a follower:
    /// the segments of the writer's log, as of the last step.
    public let segmentCount: Int
    /// Their bytes.
    public let bytes: UInt64
    /// Bytes of records that were appended since the engine opened.
    public let bytesAppended: UInt64
    /// Every logged commit up to here survives a loss of power.
    public let durableSequence: SequenceNumber
    /// Every commit up to here is visible.
    public let visibleSequence: SequenceNumber

    init(_ pipeline: CommitPipeline) {
      // Asked for first: what is durable is visible.
      durableSequence = pipeline.log.durableSequence
      visibleSequence = pipeline.visible
      let extent = pipeline.log.extent
      segmentCount = extent.segmentCount
      bytes = UInt64(extent.bytes)
      // The position after the header of the first segment is that of nothing.
      let position = pipeline.log.appendedPosition.value
      bytesAppended = position - min(position, UInt64(LogFormat.headerBlockSize))
    }
  }

  /// What flushes and compactions did since the engine opened.
  public struct Work: Sendable, Hashable {
    /// Flushes that ended well.
    public let flushCount: UInt64
    /// Bytes of the memtables that they wrote.
    public let bytesFlushRead: UInt64
    /// Bytes of tables written by flushes.
    public let bytesFlushed: UInt64
    /// Compactions that ended well and wrote tables.
    public let compactionCount: UInt64
    /// Compactions that gave tables to another level without reading them.
    public let moveCount: UInt64
    /// Bytes of tables that compactions read.
    public let bytesCompactionRead: UInt64
    /// Bytes of tables that compactions wrote.
    public let bytesCompactionWritten: UInt64
    /// Tables that were dropped unread, since range tombstones cover all that they hold.
    public let droppedUnreadCount: UInt64
    /// Range tombstones that the engine put over runs of dead keys.
    public let coveredRunCount: UInt64
    /// How often a flush, a compaction or a sync of the log failed.
    public let failureCount: UInt64
    /// The compactions by the level that they wrote to, from level 0.
    public let levels: [LevelWork]

    init(_ counters: EngineCounters) {
      flushCount = counters.flushCount
      bytesFlushRead = counters.bytesFlushRead
      bytesFlushed = counters.bytesFlushed
      levels = counters.levelWork
      compactionCount = counters.compactionCount
      moveCount = counters.moveCount
      bytesCompactionRead = levels.reduce(0) { $0 + $1.bytesRead }
      bytesCompactionWritten = levels.reduce(0) { $0 + $1.bytesWritten }
      droppedUnreadCount = counters.droppedUnreadCount
      coveredRunCount = counters.coveredRunCount
      failureCount = counters.failureCount
    }
  }

  /// The three costs of a log-structured merge-tree. Of the write amplification of an engine that was just
  /// opened say little before some memtables were flushed.
  public struct Amplification: Sendable, Hashable {
    /// Bytes written to the log and to tables for each committed byte since the engine opened; 0 if nothing was committed.
    /// Committed bytes are those of log records, or of memtables for entries that were not logged.
    public let write: Double
    /// How many tables a read of one key looks into at most, in the family where that is most. Filters spare
    /// it nearly all that don't have the key.
    public let read: Int
    /// Bytes of all tables for each byte on the last level of its family; 0 without tables.
    public let space: Double

    init(families: [Family], work: Work, log: Log, unlogged: UInt64) {
      let committed = log.bytesAppended + unlogged
      let written = log.bytesAppended + work.bytesFlushed + work.bytesCompactionWritten
      write = committed == 0 ? 0 : Double(written) / Double(committed)
      read =
        families.map { family in
          family.levelZeroDepth + family.levels.dropFirst().reduce(0) { $0 + ($1.fileCount > 0 ? 1 : 0) }
        }.max() ?? 0
      let total = families.reduce(0) { sum, family in family.levels.reduce(sum) { $0 + $1.bytes } }
      let bottom = families.reduce(0) { $0 + ($1.levels.last { $0.fileCount > 0 }?.bytes ?? 0) }
      space = bottom == 0 ? 0 : Double(total) / Double(bottom)
    }
  }

  /// How long writers waited for one cause, since the engine opened.
  public struct Stall: Sendable, Hashable {
    /// What they waited for.
    public let cause: StallCause
    /// How often one waited.
    public let count: UInt64
    /// How long all of them did, together.
    public let nanoseconds: UInt64
  }

  /// The block cache, since the engine opened. Threads may lose a few hits and misses.
  public struct Cache: Sendable, Hashable {
    /// Blocks that were found.
    public let hitCount: UInt64
    /// Blocks that were not, and were read.
    public let missCount: UInt64
    /// Blocks that came in, and their bytes.
    public let insertedCount: UInt64
    /// Bytes of the blocks that came in.
    public let insertedBytes: UInt64
    /// Blocks that had to go.
    public let evictedCount: UInt64
    /// Bytes of the blocks that had to go.
    public let evictedBytes: UInt64
    /// Blocks that it had no room for.
    public let refusedCount: UInt64
    /// Bytes that it holds now.
    public let bytes: Int
    /// Bytes that it may hold now.
    public let capacity: Int

    /// Hits of all lookups, from 0 to 1; 0 without lookups.
    public var hitRatio: Double {
      hitCount + missCount == 0 ? 0 : Double(hitCount) / Double(hitCount + missCount)
    }

    init(_ cache: BlockCache) {
      let figures = cache.statistics
      hitCount = figures.hitCount
      missCount = figures.missCount
      insertedCount = figures.insertedCount
      insertedBytes = figures.insertedBytes
      evictedCount = figures.evictedCount
      evictedBytes = figures.evictedBytes
      refusedCount = figures.refusedCount
      bytes = cache.usedBytes
      capacity = cache.capacity
    }
  }

  /// Snapshots and cursors that live, and lookups that keep something. What is old keeps what was overwritten
  /// since, and a cursor keeps the files that it began with.
  public struct Readers: Sendable, Hashable {
    /// Snapshots that live.
    public let snapshotCount: Int
    /// Cursors that live.
    public let cursorCount: Int
    /// The oldest commit that one of them sees.
    public let oldestSequence: SequenceNumber?
    /// How long the oldest snapshot has lived.
    public let oldestSnapshotAgeNanoseconds: UInt64?
    /// How long the oldest cursor has lived.
    public let oldestCursorAgeNanoseconds: UInt64?
    /// How long the oldest lookup has run at least (`get`, `multiGet`, or the body of a `withValue`) of those that
    /// keep memtables or open tables which the engine replaced since; nil where none keeps anything.
    public let oldestReadAgeNanoseconds: UInt64?
    /// Memtables that are in tables and wait for such lookups to end.
    public let keptMemTableCount: Int
    /// Bytes of memory that wait for such lookups to end: memtables, and open tables without their blocks.
    public let keptBytes: Int
    /// Tables that the database has replaced and that lookups, cursors or jobs still have: their files are removed later.
    public let keptFileCount: Int
    /// The bytes of these files.
    public let keptFileBytes: UInt64

    init(_ background: BackgroundWork) {
      let (held, now) = background.snapshots.summary
      let keptBack = background.epochs.keptBack
      oldestReadAgeNanoseconds = keptBack?.ageNanoseconds
      keptMemTableCount = keptBack?.weight.memTableCount ?? 0
      keptBytes = keptBack?.weight.bytes ?? 0
      keptFileCount = background.obsolete.pinnedCount
      keptFileBytes = background.obsolete.pinnedBytes
      snapshotCount = held.snapshotCount
      cursorCount = held.cursorCount
      oldestSequence = held.oldestSequence
      oldestSnapshotAgeNanoseconds = held.oldestSnapshotSince.map { now - min($0, now) }
      oldestCursorAgeNanoseconds = held.oldestCursorSince.map { now - min($0, now) }
    }
  }

  /// How long operations took since the engine opened, as their callers saw it. Of puts, writes, gets and
  /// seeks one in 64 is timed; syncs, flushes and compactions all are.
  public struct Latencies: Sendable, Hashable {
    /// Puts and deletes, with all that they wait for.
    public let put: LatencyHistogram
    /// Batches.
    public let write: LatencyHistogram
    /// Commits of transactions, with the check of what they read; those that met a conflict, too.
    public let transaction: LatencyHistogram
    /// Lookups of one key.
    public let get: LatencyHistogram
    /// Lookups of several keys by one call.
    public let multiGet: LatencyHistogram
    /// Seeks of cursors to a key.
    public let seek: LatencyHistogram
    /// Syncs of the log, each for all that waited for it.
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

    /// All of them with their names.
    public var all: [(name: String, histogram: LatencyHistogram)] {
      [
        ("put", put), ("write", write), ("transaction", transaction), ("get", get), ("multiGet", multiGet),
        ("seek", seek), ("sync", sync), ("flush", flush), ("compaction", compaction),
      ]
    }
  }
}
