/// Figures of an engine: what it holds now, and counts since it was opened.
///
/// Each figure is true of some instant during the call; together they need not be of one.
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
    public let id: UInt32
    /// Levels from 0.
    public let levels: [Level]
    /// Entries in its memtables, which are in no table yet.
    public let memTableEntryCount: Int

    init(_ family: ColumnFamily) {
      name = family.name
      id = family.id
      let view = family.state.retainView()
      memTableEntryCount = view.frozen.reduce(view.memTable.entryCount) { $0 + $1.entryCount }
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
  /// Bytes of the log's live segments.
  public let logBytes: UInt64
  /// Bytes of tables written by flushes.
  public let bytesFlushed: UInt64
  /// Bytes of tables that compactions read.
  public let bytesCompactionRead: UInt64
  /// Bytes of tables that compactions wrote.
  public let bytesCompactionWritten: UInt64
  /// Snapshots and cursors that are held.
  public let snapshotCount: Int

  init(_ engine: Engine) {
    memory = Memory(engine.tree)
    let state = engine.tree.state
    formatVersion = state.formatVersion
    databaseID = state.databaseID
    families = engine.families.map { Family($0) }
    levels = families.reduce(into: Array(repeating: Level(), count: Limits.levelCount)) { sums, family in
      for level in 0..<Limits.levelCount { sums[level] += family.levels[level] }
    }
    tableBytes = levels.reduce(0) { $0 + $1.bytes }
    logBytes = UInt64(engine.pipeline.log.liveBytes)
    bytesFlushed = engine.background.counters.bytesFlushed
    bytesCompactionRead = engine.background.counters.bytesCompactionRead
    bytesCompactionWritten = engine.background.counters.bytesCompactionWritten
    snapshotCount = engine.snapshots.count
  }
}
