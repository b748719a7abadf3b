/// Metrics of an engine: its current content, and counts since it was opened.
///
/// Each value was correct at some moment during the call; the values need not belong to the same moment.
public struct EngineStatistics: Sendable {
  /// The tables of one level.
  public struct Level: Sendable, Hashable {
    /// Tables on it.
    public var fileCount = 0
    /// Their bytes.
    public var bytes: UInt64 = 0
    /// Entries in them, tombstones and overwritten versions included.
    public var entryCount: UInt64 = 0
    /// Tombstones among the entries.
    public var tombstoneCount: UInt64 = 0

    static func += (left: inout Level, right: Level) {
      left.fileCount += right.fileCount
      left.bytes += right.bytes
      left.entryCount += right.entryCount
      left.tombstoneCount += right.tombstoneCount
    }
  }

  /// One column family.
  public struct Family: Sendable, Hashable {
    /// Its name.
    public let name: String
    /// Its number.
    public let id: FamilyID
    /// Whether it is emptied at each open (`FamilyOptions.isVolatile`).
    public let isVolatile: Bool
    /// Levels from 0.
    public let levels: [Level]
    /// How many tables lie above each other on level 0, where most do.
    public let levelZeroDepth: Int
    /// Entries in its memtables, which are in no table yet.
    public let memTableEntryCount: Int
    /// Range tombstones that the engine put over runs of dead keys which cursors met, since it was opened: each is a
    /// commit, with a sequence and a record of the log.
    public let coveredRunCount: UInt64
    /// Tables with range tombstones of their own. From `DeadRuns.tombstoneTablesMaximum` (64) on, cursors of the family
    /// add none.
    public let rangeTombstoneTableCount: Int

    init(_ family: ColumnFamily) {
      name = family.name
      id = family.id
      isVolatile = family.state.isVolatile
      let view = family.state.retainView()
      levelZeroDepth = view.version.levelZero.depth
      memTableEntryCount = view.frozen.reduce(view.memTable.entryCount) { $0 + $1.entryCount }
      coveredRunCount = family.state.coveredRunCount
      rangeTombstoneTableCount = view.version.rangeTombstoneTableCount(upTo: .max)
      levels = (0..<Limits.levelCount).map { level in
        view.version.tables(level: level).reduce(into: Level()) { sum, table in
          sum.fileCount += 1
          sum.bytes += table.fileSize
          sum.entryCount += table.entryCount
          sum.tombstoneCount += table.tombstoneCount
        }
      }
    }
  }

  /// How much of the memory budget is used, and by what, in bytes.
  public struct Memory: Sendable, Hashable {
    /// The budget.
    public let limit: Int
    /// Arenas of memtables: active, frozen, held by cursors, or kept for new ones.
    public let memTables: Int
    /// Mapped segments of the log.
    public let log: Int
    /// Open tables, without their blocks in the cache.
    public let openTables: Int
    /// Buffers of flushes and compactions.
    public let compaction: Int
    /// Families, and what is known of each table.
    public let other: Int
    /// Blocks in the cache.
    public let cache: Int
    /// What the cache may hold now.
    public let cacheCapacity: Int
    /// Tables that are kept open.
    public let openTableCount: Int

    /// All that is counted.
    public var used: Int { memTables + log + openTables + compaction + other + cache }
    /// By how many bytes `used` exceeds the budget; 0 where it does not. An engine that only reads holds all of the
    /// log that the writer has not put into tables: nothing bounds that.
    public var excess: Int { max(used - limit, 0) }

    init(_ tree: Tree) {
      let budget = tree.budget
      limit = budget.limit
      memTables = budget.used(.memTables)
      log = budget.used(.log)
      openTables = budget.used(.openTables)
      compaction = budget.used(.compaction)
      other = budget.used(.other)
      cache = budget.cache.usedBytes
      cacheCapacity = budget.cache.capacity
      openTableCount = tree.openTables.count
    }
  }

  /// The memory that is used.
  public let memory: Memory
  /// The version of the format on disk.
  public let formatVersion: UInt32
  /// The random number that the database got when it was made.
  public let databaseID: UInt64
  /// All families, in the order of their creation.
  public let families: [Family]
  /// Levels from 0, over all families.
  public let levels: [Level]
  /// Bytes of all tables.
  public let tableBytes: UInt64
  /// The log.
  public let log: Log
  /// What flushes and compactions did.
  public let work: Work
  /// What each byte that is committed costs to write, to read and to keep.
  public let amplification: Amplification
  /// How long writers waited, by cause.
  public let stalls: [Stall]
  /// The block cache.
  public let cache: Cache
  /// Snapshots and cursors that live.
  public let readers: Readers
  /// Keys that were looked up. Threads may lose a few.
  public let readCount: UInt64
  /// Samples of how long operations took.
  public let latencies: Latencies
  /// The damaged blocks that compactions met, ordered by table. Their tables stay out of compactions until
  /// `Engine.resume()` finds them whole or `Engine.giveUp(_:)` rewrites them.
  public let damagedBlocks: [DamagedBlock]
  /// Events that listeners were too slow for.
  public let eventsDroppedCount: UInt64

  /// Bytes of the log's live segments.
  public var logBytes: UInt64 { log.bytes }
  /// Bytes of tables written by flushes.
  public var bytesFlushed: UInt64 { work.bytesFlushed }
  /// Bytes of tables that compactions read.
  public var bytesCompactionRead: UInt64 { work.bytesCompactionRead }
  /// Bytes of tables that compactions wrote.
  public var bytesCompactionWritten: UInt64 { work.bytesCompactionWritten }
  /// Snapshots and cursors that are held.
  public var snapshotCount: Int { readers.snapshotCount + readers.cursorCount }

  init(_ background: BackgroundWork) {
    let tree = background.tree
    let metrics = background.metrics
    memory = Memory(tree)
    formatVersion = tree.formatVersion
    databaseID = tree.databaseID
    families = background.registry.all.map { Family($0) }
    levels = families.reduce(into: Array(repeating: Level(), count: Limits.levelCount)) { sums, family in
      for level in 0..<Limits.levelCount { sums[level] += family.levels[level] }
    }
    tableBytes = levels.reduce(0) { $0 + $1.bytes }
    log = Log(background.pipeline)
    work = Work(metrics.counters)
    amplification = Amplification(families: families, work: work, log: log, unlogged: metrics.counters.bytesUnlogged)
    stalls = metrics.stalls.map {
      Stall(cause: $0.cause, count: $0.stallCount, nanoseconds: $0.totalNanoseconds)
    }
    cache = Cache(tree.cache)
    readers = Readers(background)
    readCount = background.epochs.readCount
    latencies = Latencies(metrics.latencies)
    damagedBlocks = background.compactions.damagedBlocks
    eventsDroppedCount = metrics.events.droppedCount
  }
}
