/// Metrics of an engine: its current content, and counts since it was opened.
///
/// Each value was correct at some moment during the call; the values need not belong to the same moment.
///
/// As JSON (`json`, `Codable`) they are one object, as published, and as the member `statistics` of what
/// `varve stats --json` prints. Times are in nanoseconds, sizes in bytes. Later versions may add members; existing ones
/// keep their meaning. Only statistics of one process can be subtracted from each other.
public struct EngineStatistics: Sendable, Hashable, Codable {
  /// The tables of one level.
  public struct Level: Sendable, Hashable, NumberedLevel {
    /// The number of the level.
    public var level = 0
    /// The number of tables.
    public var fileCount = 0
    /// The bytes of the tables.
    public var bytes: UInt64 = 0
    /// The entries of the tables, including tombstones and overwritten versions.
    public var entryCount: UInt64 = 0
    /// Tombstones among the entries.
    public var tombstoneCount: UInt64 = 0
    /// Range tombstones of the tables, which are not among the entries.
    public var rangeTombstoneCount: UInt64 {
      get { rangeTombstones ?? 0 }
      set { rangeTombstones = newValue > 0 ? newValue : nil }
    }
    /// `nil` instead of 0: in JSON, the member is absent from most levels, and from those of earlier versions.
    private var rangeTombstones: UInt64?

    /// Creates an empty level.
    public init() {}

    private enum CodingKeys: String, CodingKey {
      case level
      case fileCount = "files"
      case bytes
      case entryCount = "entries"
      case tombstoneCount = "tombstones"
      case rangeTombstones
    }

    static func += (left: inout Level, right: Level) {
      left.fileCount += right.fileCount
      left.bytes += right.bytes
      left.entryCount += right.entryCount
      left.tombstoneCount += right.tombstoneCount
      left.rangeTombstoneCount += right.rangeTombstoneCount
    }
  }

  /// One column family.
  public struct Family: Sendable, Hashable, Codable {
    /// The name of the family.
    public let name: String
    /// The number of the family on disk.
    public let id: FamilyID
    /// 1 or `nil`: in JSON, the member is absent from most families.
    private let volatile: Int?
    /// The number of entries in its memtables, which are not in tables yet.
    public let memTableEntryCount: Int
    /// The number of range tombstones that the engine wrote over runs of dead keys found by cursors, since it was
    /// opened.
    ///
    /// Each is a commit, with a sequence and a log record.
    public let coveredRunCount: UInt64
    /// The number of tables with range tombstones. From `DeadRuns.tombstoneTablesMaximum` (64) on, cursors of the
    /// family add none.
    public let rangeTombstoneTableCount: Int
    /// The largest number of level 0 tables that cover one key.
    public let levelZeroDepth: Int
    private let storedLevels: ByLevel<Level>

    /// The tables by level, from level 0.
    public var levels: [Level] { storedLevels.elements }
    /// A Boolean value that indicates whether the family is emptied at each open (`FamilyOptions.isVolatile`).
    public var isVolatile: Bool { volatile == 1 }

    init(_ family: ColumnFamily) {
      name = family.name
      id = family.id
      volatile = family.state.isVolatile ? 1 : nil
      let view = family.state.retainView()
      levelZeroDepth = view.version.levelZero.depth
      memTableEntryCount = view.frozen.reduce(view.memTable.entryCount) { $0 + $1.entryCount }
      coveredRunCount = family.state.coveredRunCount
      rangeTombstoneTableCount = view.version.rangeTombstoneTableCount(upTo: .max)
      let levels = (0..<Limits.levelCount).map { level in
        var empty = Level()
        empty.level = level
        return view.version.tables(level: level).reduce(into: empty) { sum, table in
          sum.fileCount += 1
          sum.bytes += table.fileSize
          sum.entryCount += table.entryCount
          sum.tombstoneCount += table.tombstoneCount
          sum.rangeTombstoneCount += table.rangeTombstoneCount
        }
      }
      storedLevels = ByLevel(elements: levels)
    }

    private enum CodingKeys: String, CodingKey {
      case name, id, volatile
      case memTableEntryCount = "memTableEntries"
      case coveredRunCount = "coveredRuns"
      case rangeTombstoneTableCount = "rangeTombstoneTables"
      case levelZeroDepth
      case storedLevels = "levels"
    }
  }

  /// The use of the memory budget, in bytes.
  public struct Memory: Sendable, Hashable, Codable {
    /// The budget.
    public let limit: Int
    /// The sum of all counted memory.
    public let used: Int
    /// The bytes by which `used` exceeds the budget, or 0 if it does not.
    ///
    /// A read-only engine holds all log entries that the writer has not flushed, and their size is not bounded.
    public let excess: Int
    /// Arenas of memtables: active, frozen, retained by cursors, or kept for new ones.
    public let memTables: Int
    /// Mapped segments of the log.
    public let log: Int
    /// Open tables, without their blocks in the cache.
    public let openTables: Int
    /// Buffers of flushes and compactions.
    public let compaction: Int
    /// Families, and the metadata of tables.
    public let other: Int
    /// Blocks in the cache.
    public let cache: Int
    /// The number of tables that are kept open.
    public let openTableCount: Int

    init(_ tree: Tree) {
      let budget = tree.budget
      limit = budget.limit
      memTables = budget.used(.memTables)
      log = budget.used(.log)
      openTables = budget.used(.openTables)
      compaction = budget.used(.compaction)
      other = budget.used(.other)
      cache = budget.cache.usedBytes
      openTableCount = tree.openTables.count
      used = memTables + log + openTables + compaction + other + cache
      excess = max(used - limit, 0)
    }
  }

  private let hexadecimalID: HexadecimalNumber
  /// The version of the format on disk.
  public let formatVersion: UInt32
  /// The number of keys that were looked up. Threads may lose a few counts.
  public let readCount: UInt64
  /// Bytes of all tables.
  public let tableBytes: UInt64
  /// The number of events that were dropped because listeners were too slow.
  public let eventsDroppedCount: UInt64
  /// The number of families. Published statistics contain at most 64 of them, those with the most bytes.
  public let familyCount: Int
  private let storedLevels: ByLevel<Level>
  /// The families, in the order of their creation.
  public internal(set) var families: [Family]
  /// The log.
  public let log: Log
  /// The work of flushes and compactions.
  public let work: Work
  /// The cost of each committed byte in writes, reads and space.
  public let amplification: Amplification
  /// The damaged blocks that compactions found, ordered by table. Their tables stay out of compactions until
  /// `Engine.resume()` finds them intact or `Engine.giveUp(_:)` rewrites them.
  public let damagedBlocks: [DamagedBlock]
  /// The time that writers waited, by cause.
  public let stalls: [Stall]
  /// The block cache.
  public let cache: Cache
  /// The used memory.
  public let memory: Memory
  /// Live snapshots and cursors.
  public let readers: Readers
  /// Samples of the durations of operations.
  public let latencies: Latencies

  /// The tables by level, from level 0, over all families.
  public var levels: [Level] { storedLevels.elements }
  /// The random number assigned to the database at its creation.
  public var databaseID: UInt64 { hexadecimalID.value }
  /// Bytes of the log's live segments.
  public var logBytes: UInt64 { log.bytes }
  /// Bytes of tables written by flushes.
  public var bytesFlushed: UInt64 { work.bytesFlushed }
  /// Bytes of tables that compactions read.
  public var bytesCompactionRead: UInt64 { work.bytesCompactionRead }
  /// Bytes of tables that compactions wrote.
  public var bytesCompactionWritten: UInt64 { work.bytesCompactionWritten }
  /// The number of live snapshots and cursors.
  public var snapshotCount: Int { readers.snapshotCount + readers.cursorCount }

  /// Reads the statistics, with at most `familyCountMaximum` families: those with the most bytes.
  ///
  /// The sums are those of all families. Of the others, nothing is kept.
  init(_ background: BackgroundWork, familyCountMaximum: Int = .max) {
    let tree = background.tree
    let metrics = background.metrics
    memory = Memory(tree)
    formatVersion = tree.formatVersion
    hexadecimalID = HexadecimalNumber(value: tree.databaseID)
    let all = background.registry.all
    let shown = Self.largest(all, familyCountMaximum)
    var sums = FamilySums()
    families = all.compactMap { family in
      let statistics = Family(family)
      sums.add(statistics)
      return shown?.contains(family.id) ?? true ? statistics : nil
    }
    familyCount = all.count
    let levels = sums.levels
    storedLevels = ByLevel(elements: levels)
    tableBytes = levels.reduce(0) { $0 + $1.bytes }
    log = Log(background.pipeline)
    work = Work(metrics.counters)
    amplification = Amplification(families: sums, work: work, log: log, unlogged: metrics.counters.bytesUnlogged)
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

  private enum CodingKeys: String, CodingKey {
    case hexadecimalID = "databaseID"
    case formatVersion, readCount, tableBytes, eventsDroppedCount, familyCount, families, log, work
    case storedLevels = "levels"
    case amplification, damagedBlocks, stalls, cache, memory, readers, latencies
  }
}
