/// The tables of one column family at one moment: immutable, shared by whoever reads.
///
/// The next Version is made by a `VersionBuilder` from this one and an edit; it shares the arrays of
/// every level that the edit leaves alone. Families without tables share one empty Version.
///
/// # Invariants
/// 1. Level 0: see `LevelZero`. Levels 1 to 6: sorted runs.
/// 2. For each key, every entry on a level is newer than every entry on a deeper level.
/// 3. A table is on one level only.
///
/// # Concurrency
/// Immutable; safe from any thread.
final class Version: Sendable {
  let levelZero: LevelZero
  /// Levels 1, 2, ... at indices 0, 1, ... Empty if no level below 0 has tables.
  let runs: [SortedRun]
  /// Bytes of all tables.
  let totalSize: UInt64
  let tableCount: Int
  /// Whether any table has range tombstones.
  let hasRangeTombstones: Bool

  /// The Version of a family without tables.
  static let empty = Version(levelZero: .empty, runs: [])

  /// `runs` are the levels from 1 on.
  init(levelZero: LevelZero, runs: [SortedRun]) {
    precondition(runs.count < Limits.levelCount, "pass at most one run for each level from 1 on")
    self.levelZero = levelZero
    self.runs = runs.allSatisfy(\.isEmpty) ? [] : runs
    totalSize = runs.reduce(levelZero.totalSize) { $0 + $1.totalSize }
    hasRangeTombstones =
      levelZero.sublevels.contains(where: \.hasRangeTombstones) || runs.contains(where: \.hasRangeTombstones)
    tableCount = runs.reduce(levelZero.tables.count) { $0 + $1.count }
  }

  /// A level from 1 on.
  @inline(__always)
  func run(_ level: Int) -> SortedRun {
    assert(level >= 1 && level < Limits.levelCount, "level 0 is not a sorted run: use levelZero")
    return level &- 1 < runs.count ? runs[level &- 1] : .empty
  }

  /// The tables of any level: newest first on level 0, in key order below.
  func tables(level: Int) -> [TableMetadata] { level == 0 ? levelZero.tables : run(level).tables }

  func size(level: Int) -> UInt64 { level == 0 ? levelZero.totalSize : run(level).totalSize }

  var isEmpty: Bool { tableCount == 0 }

  /// The deepest level that has tables, or nil.
  var deepestLevel: Int? {
    (1..<Limits.levelCount).last { !run($0).isEmpty } ?? (levelZero.isEmpty ? nil : 0)
  }
}
