/// Determines which keys may have data below the inputs of a compaction or flush: a cursor over the bounds of every
/// table that could have older entries than the inputs.
///
///     inputs    a    c  d       g        k   n
///     deeper      ──────      ────     ──────        the union of the tables' bounds
///     may hold  no  yes yes    no  ...               each key against the first interval not before it
///
/// The union is computed once, when the job starts; a key then costs one or two comparisons, however many levels and
/// tables there are.
///
/// # Invariants
/// 1. `intervals` ascend and don't overlap. Those before `position` end before every key of later calls: keys ascend
///    between two calls of `rewind`.
///
/// # Safety
/// The views point into metadata that `tables` keeps alive.
///
/// # Concurrency
/// Used by one job.
struct DeeperKeys: ~Copyable {
  private struct Interval {
    let start: ByteView
    var end: ByteView
    /// See `TableMetadata.largestIsExcluded`.
    var endIsExcluded: Bool

    @inline(__always)
    func endsBefore(_ key: ByteView) -> Bool {
      let order = end.compare(key)
      return order < 0 || (order == 0 && endIsExcluded)
    }
  }

  private let tables: [TableMetadata]
  private var intervals: [Interval] = []
  private var position = 0
  private var holdsEveryKey = false

  /// `runs` are all sorted runs that may have older data for keys of `range` than the job's inputs: the deeper levels,
  /// and for outputs on level 0 (or inputs from there) the sublevels below the inputs.
  init(_ runs: [SortedRun], in range: UserKeyRange = .all) {
    var tables: [TableMetadata] = []
    for run in runs { tables += run.tables[run.overlap(range)] }
    tables.sort(by: TableMetadata.isSmallerFirst)
    self.tables = tables
    for table in tables {
      guard let last = intervals.last, !last.endsBefore(table.smallest) else {
        intervals.append(
          Interval(start: table.smallest, end: table.largest, endIsExcluded: table.largestIsExcluded))
        continue
      }
      let order = last.end.compare(table.largest)
      if order < 0 || (order == 0 && last.endIsExcluded) {
        intervals[intervals.count - 1].end = table.largest
        intervals[intervals.count - 1].endIsExcluded = table.largestIsExcluded
      }
    }
  }

  /// Returns an instance for jobs that don't know the deeper levels: every key may have data there.
  static func everyKey() -> DeeperKeys {
    var keys = DeeperKeys([])
    keys.holdsEveryKey = true
    return keys
  }

  /// A Boolean value that indicates whether no key has data below.
  var isEmpty: Bool { intervals.isEmpty && !holdsEveryKey }

  /// Restarts from the first key.
  mutating func rewind() { position = 0 }

  /// Returns whether a deeper table's bounds include `key`, which must not be before the key of the previous call.
  @inline(__always)
  mutating func mayHold(_ key: ByteView) -> Bool {
    if position == intervals.count { return holdsEveryKey }
    if intervals[position].endsBefore(key) {
      advance(to: key)
      if position == intervals.count { return false }
    }
    return intervals[position].start.compare(key) <= 0
  }

  /// Moves `position` to the first interval that does not end before `key`.
  ///
  /// Uses doubling steps and then a binary search, because a job may begin far past the first interval.
  @inline(never)
  private mutating func advance(to key: ByteView) {
    var step = 1
    while position + step < intervals.count, intervals[position + step].endsBefore(key) {
      position += step
      step *= 2
    }
    // The interval at `position` ends before the key; the one at `high` doesn't, or is past the last.
    var high = min(position + step, intervals.count)
    var low = position + 1
    while low < high {
      let middle = (low + high) / 2
      if intervals[middle].endsBefore(key) { low = middle + 1 } else { high = middle }
    }
    position = low
  }
}
