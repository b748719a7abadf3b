internal import Synchronization

/// Level 0: flushed tables that may overlap, arranged in sublevels.
///
/// A table's sublevel is one above the highest sublevel of the older tables that it overlaps:
///
///     sublevel 1        ──t5──────          ──t6──
///     sublevel 0   ──t1────  ──t2────  ──t3──  ──t4──
///     interval     0  1    2  3      4  5    6  7     ...   (odd ones here are covered twice or not at all)
///
/// So tables of one sublevel don't overlap, of two tables that overlap the newer has the higher sublevel, and a read
/// searches at most `depth` tables, however many there are. Depth, not the number of tables, is what reads pay for and
/// compactions reduce.
///
/// A flush adds tables that are newer than all others: each goes above the highest sublevel that it overlaps. Other
/// changes rearrange all tables (`LevelZeroIntervals`).
///
/// # Invariants
/// 1. `tables` are newest first (`TableMetadata.isNewerFirst`).
/// 2. Of two tables that overlap one is older than the other in every entry.
/// 3. `sublevels[i]` is a sorted run; every key's versions get newer with `i`.
///
/// # Concurrency
/// A value; safe from any thread.
struct LevelZero: Sendable {
  /// Newest first.
  let tables: [TableMetadata]
  /// Oldest first.
  let sublevels: [SortedRun]
  /// The size of all files, in bytes.
  let totalSize: UInt64
  private let lazyIntervals: LazyIntervals

  static let empty = LevelZero([])

  /// Arranges tables, which must be newest first. Complexity: O(n log n).
  init(_ tables: [TableMetadata]) { self.init(tables, LevelZeroIntervals(tables)) }

  private init(_ tables: [TableMetadata], _ intervals: LevelZeroIntervals) {
    self.tables = tables
    totalSize = tables.reduce(0) { $0 + $1.fileSize }
    var members: [[TableMetadata]] = []
    for (index, level) in intervals.sublevels() {
      if level == members.count { members.append([]) }
      members[level].append(tables[index])
    }
    sublevels = members.map { SortedRun($0.sorted(by: TableMetadata.isSmallerFirst)) }
    lazyIntervals = LazyIntervals(intervals)
  }

  private init(tables: [TableMetadata], sublevels: [SortedRun], totalSize: UInt64) {
    self.tables = tables
    self.sublevels = sublevels
    self.totalSize = totalSize
    lazyIntervals = LazyIntervals(nil)
  }

  /// The largest number of tables that cover one key.
  var depth: Int { sublevels.count }
  var isEmpty: Bool { tables.isEmpty }

  /// The intervals of keys that the tables cover, computed at the first access. Complexity: O(n log n) once, then a
  /// lock.
  var intervals: LevelZeroIntervals { lazyIntervals.get(tables) }

  /// Returns level 0 without the tables `deleted` and with the tables `added`, each in any order.
  ///
  /// Throws `.corruption` if a deleted table is not present, or an added one overlaps another in keys and in sequence.
  ///
  /// Complexity: if the added tables are newer than all others and none is deleted, a search in each sublevel above the
  /// one that each table goes to, and copies of two arrays; otherwise O(n log n).
  func applying(deleted: [TableMetadata], added: [TableMetadata]) throws(EngineError) -> LevelZero {
    let added = added.sorted(by: TableMetadata.isNewerFirst)
    if deleted.isEmpty, let last = added.last, tables.first.map({ TableMetadata.isNewerFirst(last, $0) }) ?? true {
      return try adding(newest: added)
    }
    var gone = Set(deleted.map(\.number))
    var kept: [TableMetadata] = []
    kept.reserveCapacity(tables.count)
    for table in tables where gone.isEmpty || gone.remove(table.number) == nil { kept.append(table) }
    if let absent = gone.min() { throw .corruption("table \(absent) is deleted from level 0, where it is not") }
    return try LevelZero(checking: Self.merged(kept, added))
  }

  /// Arranges tables, which must be newest first, and checks that overlapping ones are disjoint in sequence.
  private init(checking tables: [TableMetadata]) throws(EngineError) {
    let intervals = LevelZeroIntervals(tables)
    if let (newer, older) = intervals.conflict(in: tables) { throw Self.conflict(tables[newer], tables[older]) }
    self.init(tables, intervals)
  }

  private static func conflict(_ newer: TableMetadata, _ older: TableMetadata) -> EngineError {
    .corruption("tables \(newer.number) and \(older.number) of level 0 overlap in keys and in sequence")
  }

  private static func merged(_ left: [TableMetadata], _ right: [TableMetadata]) -> [TableMetadata] {
    if right.isEmpty { return left }
    var result: [TableMetadata] = []
    result.reserveCapacity(left.count + right.count)
    var next = 0
    for table in right {
      while next < left.count, TableMetadata.isNewerFirst(left[next], table) {
        result.append(left[next])
        next += 1
      }
      result.append(table)
    }
    return result + left[next...]
  }

  private func adding(newest added: [TableMetadata]) throws(EngineError) -> LevelZero {
    var sublevels = sublevels
    var size = totalSize
    let all = added + tables
    for index in added.indices.reversed() {
      let table = added[index]
      // Only tables that reach into the sequences of this one could be neither older nor newer.
      for other in all[(index + 1)...] {
        guard other.largestSequence >= table.smallestSequence else { break }
        if other.overlaps(table) { throw Self.conflict(table, other) }
      }
      var level = sublevels.count
      while level > 0, sublevels[level - 1].overlap(table).isEmpty { level -= 1 }
      if level == sublevels.count {
        sublevels.append(SortedRun([table]))
      } else {
        sublevels[level] = try sublevels[level].applying(deleted: [], added: [table], level: 0)
      }
      size += table.fileSize
    }
    return LevelZero(tables: all, sublevels: sublevels, totalSize: size)
  }

  /// The intervals, computed on demand, because most versions are replaced before their intervals are needed.
  private final class LazyIntervals: Sendable {
    private let intervals: Mutex<LevelZeroIntervals?>

    init(_ intervals: LevelZeroIntervals?) { self.intervals = Mutex(intervals) }

    func get(_ tables: [TableMetadata]) -> LevelZeroIntervals {
      intervals.withLock { intervals in
        if let intervals { return intervals }
        let computed = LevelZeroIntervals(tables)
        intervals = computed
        return computed
      }
    }
  }
}
