/// The tables of one column family at one point in time: immutable and shared by readers.
///
/// A `VersionBuilder` makes the next Version from this one and an edit; it shares every level and every chunk of a
/// level (`TableChunk`) that the edit does not change. Families without tables share one empty Version.
///
/// # Invariants
/// 1. Level 0 is arranged as `LevelZero` describes. Levels 1 to 6 are sorted runs.
/// 2. For each key, every entry on a level is newer than every entry on a deeper level.
/// 3. A table is on one level only.
///
/// # Concurrency
/// Immutable; safe from any thread.
@safe
final class Version: @unchecked Sendable {
  let levelZero: LevelZero
  /// The levels 1, 2, ... at indices 0, 1, ... Empty if no level below 0 has tables.
  let runs: [SortedRun]
  /// The size of all tables, in bytes.
  let totalSize: UInt64
  let tableCount: Int
  /// Whether any table has range tombstones.
  let hasRangeTombstones: Bool
  /// The sequence number of the newest entry of all tables, or zero if there is none.
  let largestSequence: SequenceNumber
  /// The sorted runs that have tables, in the order of a lookup: sublevels from the newest on, then the levels
  /// downwards. The version retains them through its other fields, so a lookup needs no retain.
  private let searched: UnsafeMutableBufferPointer<Unmanaged<SortedRun>>

  /// The Version of a family without tables.
  static let empty = Version(levelZero: .empty, runs: [])

  /// Creates a version from level 0 and the levels from 1 on.
  init(levelZero: LevelZero, runs: [SortedRun]) {
    precondition(runs.count < Limits.levelCount, "pass at most one run for each level from 1 on")
    self.levelZero = levelZero
    self.runs = runs.allSatisfy(\.isEmpty) ? [] : runs
    totalSize = runs.reduce(levelZero.totalSize) { $0 + $1.totalSize }
    hasRangeTombstones =
      levelZero.sublevels.contains(where: \.hasRangeTombstones) || runs.contains(where: \.hasRangeTombstones)
    largestSequence =
      (levelZero.sublevels.lazy.map(\.largestSequence) + runs.lazy.map(\.largestSequence)).max() ?? .zero
    tableCount = runs.reduce(levelZero.tables.count) { $0 + $1.count }
    let order = levelZero.sublevels.reversed() + runs.filter { !$0.isEmpty }
    unsafe searched = UnsafeMutableBufferPointer.allocate(capacity: order.count)
    _ = unsafe searched.initialize(from: order.map { unsafe Unmanaged.passUnretained($0) })
  }

  deinit {
    unsafe searched.deallocate()
  }

  /// The number of runs that a lookup searches.
  @inline(__always)
  var searchedCount: Int { unsafe searched.count }

  /// Returns the only table of a run that can contain `userKey`. `index` is that of the run in the order of a lookup.
  @inline(__always)
  func table(covering userKey: ByteView, inRun index: Int) -> TableMetadata? {
    unsafe searched[index]._withUnsafeGuaranteedRef { $0.table(covering: userKey) }
  }

  /// Returns a level from 1 on.
  @inline(__always)
  func run(_ level: Int) -> SortedRun {
    assert(level >= 1 && level < Limits.levelCount, "level 0 is not a sorted run: use levelZero")
    return level &- 1 < runs.count ? runs[level &- 1] : .empty
  }

  /// Returns a copy of the tables of any level: newest first on level 0, in key order on deeper levels.
  ///
  /// Complexity: from level 1 on, linear in the tables of the level.
  func tables(level: Int) -> [TableMetadata] { level == 0 ? levelZero.tables : run(level).tables.array }

  /// Calls `body` with each table and its level.
  func forEachTable<E: Error>(_ body: (_ table: TableMetadata, _ level: Int) throws(E) -> Void) throws(E) {
    for table in levelZero.tables { try body(table, 0) }
    for level in 1..<Limits.levelCount { for table in run(level).tables { try body(table, level) } }
  }

  /// Calls `body` with each sorted run and its level: the sublevels of level 0 from the oldest on, then the levels.
  func forEachRun<E: Error>(_ body: (_ run: SortedRun, _ level: Int) throws(E) -> Void) throws(E) {
    for sublevel in levelZero.sublevels { try body(sublevel, 0) }
    for (index, run) in runs.enumerated() where !run.isEmpty { try body(run, index + 1) }
  }

  /// Returns the table with a number and its level, if it exists and can contain `userKey`.
  ///
  /// Complexity: a binary search in each run.
  func find(_ number: FileNumber, at userKey: ByteView) -> (table: TableMetadata, level: Int)? {
    for (index, run) in runs.enumerated() {
      if let table = run.table(covering: userKey), table.number == number { return (table, index + 1) }
    }
    for sublevel in levelZero.sublevels {
      if let table = sublevel.table(covering: userKey), table.number == number { return (table, 0) }
    }
    return nil
  }

  /// The approximate memory of this object and of its runs, which is zero in the Version that all families without
  /// tables share. The memory of the tables' metadata is not part of it (`TableMetadata.memorySize`).
  var memorySize: Int { isEmpty ? 0 : 384 + 256 * searchedCount }

  func size(level: Int) -> UInt64 { level == 0 ? levelZero.totalSize : run(level).totalSize }

  var isEmpty: Bool { tableCount == 0 }

  /// Returns the number of tables with range tombstones, counted up to `maximum`.
  ///
  /// Complexity: linear in the chunks that have such tables.
  func rangeTombstoneTableCount(upTo maximum: Int) -> Int {
    guard hasRangeTombstones else { return 0 }
    var count = 0
    forEachRun { run, _ in
      for chunk in run.tombstoneChunks where count < maximum { count += chunk.tombstoneTables.count }
    }
    return min(count, maximum)
  }

  /// The deepest level that has tables, or nil.
  var deepestLevel: Int? {
    (1..<Limits.levelCount).last { !run($0).isEmpty } ?? (levelZero.isEmpty ? nil : 0)
  }
}
