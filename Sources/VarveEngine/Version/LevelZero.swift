/// Level 0: flushed tables that may overlap, arranged in sublevels.
///
/// The bounds of all tables cut the keys into *intervals*, and each table covers a run of them. A
/// table's sublevel is one above the highest sublevel of the older tables in its intervals:
///
///     sublevel 1        ──t5──────          ──t6──
///     sublevel 0   ──t1────  ──t2────  ──t3──  ──t4──
///     interval     0  1    2  3      4  5    6  7     ...   (odd ones here are covered twice or not at all)
///
/// So tables of one sublevel don't overlap, of two tables that overlap the newer has the higher
/// sublevel, and a read looks into at most `depth` tables, however many there are. Depth, not the
/// number of tables, is what reads pay and what compactions lower.
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
  /// The intervals that each of `tables` covers.
  let intervals: [Range<Int>]
  let intervalCount: Int
  /// Bytes of all files.
  let totalSize: UInt64

  static let empty = LevelZero([])

  /// Arranges tables that come newest first.
  init(_ tables: [TableMetadata]) {
    self.tables = tables
    totalSize = tables.reduce(0) { $0 + $1.fileSize }
    (intervals, intervalCount) = Self.cut(tables)
    var top = [Int](repeating: 0, count: intervalCount)
    var members: [[TableMetadata]] = []
    for index in tables.indices.reversed() {
      let level = top[intervals[index]].max() ?? 0
      for interval in intervals[index] { top[interval] = level + 1 }
      if level == members.count { members.append([]) }
      members[level].append(tables[index])
    }
    sublevels = members.map { SortedRun($0.sorted(by: TableMetadata.isSmallerFirst)) }
  }

  /// How many tables lie above each other where most do.
  var depth: Int { sublevels.count }
  var isEmpty: Bool { tables.isEmpty }

  /// A bound of a table: the interval that begins at a key, or right behind it.
  private struct Boundary {
    let table: Int
    let isStart: Bool
    let key: ByteView
    /// An included upper bound ends right behind its key, so it sorts after everything at the key.
    let isBehindKey: Bool
  }

  /// Gives each table the run of intervals it covers; two tables overlap just where their runs do.
  private static func cut(_ tables: [TableMetadata]) -> ([Range<Int>], Int) {
    var boundaries: [Boundary] = []
    boundaries.reserveCapacity(tables.count * 2)
    for (index, table) in tables.enumerated() {
      boundaries.append(Boundary(table: index, isStart: true, key: table.smallest, isBehindKey: false))
      boundaries.append(
        Boundary(table: index, isStart: false, key: table.largest, isBehindKey: !table.largestIsExcluded))
    }
    boundaries.sort { left, right in
      let order = left.key.compare(right.key)
      if order != 0 { return order < 0 }
      return !left.isBehindKey && right.isBehindKey
    }
    var starts = [Int](repeating: 0, count: tables.count)
    var result = [Range<Int>](repeating: 0..<0, count: tables.count)
    var interval = 0
    var previous: Boundary?
    for boundary in boundaries {
      if let previous, previous.key != boundary.key || previous.isBehindKey != boundary.isBehindKey { interval += 1 }
      previous = boundary
      if boundary.isStart {
        starts[boundary.table] = interval
      } else {
        // An empty run (a table with one excluded key) cannot be: bounds are at least one key apart.
        result[boundary.table] = starts[boundary.table]..<max(interval, starts[boundary.table] + 1)
      }
    }
    return (result, boundaries.isEmpty ? 0 : interval + 1)
  }
}
