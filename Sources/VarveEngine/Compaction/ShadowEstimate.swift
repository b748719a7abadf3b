/// Estimates the bytes that tombstones hide in older tables: the space that is freed once compactions have merged the
/// two.
///
/// # Method
/// - For a sample of the keys that are deleted one at a time (`TombstoneSample`): in each run, the one table that may
///   have the key is asked. If its filter allows the key, the average entry of the key's data block counts, by the
///   index. A value larger than a block has a block of its own. An entry that is itself a tombstone already hides what
///   is below it, so what is below counts by the share of the block's entries that are none. The sum is multiplied by
///   the number of tombstones for each key of the sample.
/// - For ranges: in each run, the data between the two bounds, by the index, and without reading tables that lie
///   completely in the range. Those count only on request: in the tree they are dropped unread (`CoveredTables`).
///
/// # Cost
/// No data block is read, and at most `tableMaximum` tables are asked for the sample, and as many for the ranges. If
/// there are more tables, evenly chosen ones stand for the others.
///
/// # Errors
/// A table that can't be read leaves no estimate. The job that needs one continues without it.
struct ShadowEstimate {
  /// The runs that may have older entries, newest first.
  private let runs: [SortedRun]
  private let readers: any TableReaders
  private let tableMaximum: Int
  private let countsCovered: Bool

  /// The maximum number of tables for the sample, and for the ranges.
  static let tableMaximum = 128
  /// The maximum number of runs that are asked: the largest ones.
  private static let runMaximum = 32
  /// The maximum number of ranges whose size is asked for. Evenly chosen ones stand for the others.
  private static let rangeMaximum = 1_024

  /// Creates an estimate over `runs`, newest first.
  ///
  /// At most `openTableMaximum` tables are open at once in the engine, so that no more than a quarter of them is used.
  /// `countsCovered` includes tables that lie completely in a range.
  init(over runs: [SortedRun], _ readers: any TableReaders, openTableMaximum: Int, countsCovered: Bool = false) {
    let largest = runs.indices.filter { !runs[$0].isEmpty }.sorted { runs[$0].totalSize > runs[$1].totalSize }
    self.runs = largest.prefix(Self.runMaximum).sorted().map { runs[$0] }
    self.readers = readers
    self.countsCovered = countsCovered
    tableMaximum = min(Self.tableMaximum, max(openTableMaximum / 4, 1))
  }

  /// Creates an estimate over all tables of a version.
  init(over version: Version, _ readers: any TableReaders, openTableMaximum: Int, countsCovered: Bool = false) {
    self.init(
      over: version.levelZero.sublevels.reversed() + version.runs, readers, openTableMaximum: openTableMaximum,
      countsCovered: countsCovered)
  }

  /// Returns the bytes that the tombstones of a sample and those of a list hide, or nil if a table can't be read.
  func size(_ sample: borrowing TombstoneSample, _ list: RangeTombstoneList) -> UInt64? {
    if runs.isEmpty { return 0 }
    if sample.count == 0, sample.tombstoneCount > 0 { return nil }
    do throws(EngineError) {
      let size = try pointSize(sample) + rangeSize(list)
      return UInt64(min(size, Double(TableProperties.shadowedMaximum)))
    } catch {
      return nil
    }
  }

  /// Returns the bytes that the deletes of a memtable hide, or nil if a table can't be read.
  ///
  /// Complexity: linear in the entries of the memtable.
  func size(of memTable: MemTable) -> UInt64? {
    var sample = TombstoneSample()
    var entries = memTable.makeIterator()
    entries.seekToFirst()
    var last: ByteView?
    while entries.isValid {
      // A flush keeps the newest entry of each key.
      if last.map({ $0 != entries.userKey }) ?? true {
        last = entries.userKey
        if entries.trailer.isTombstone { sample.add(entries.userKey) }
      }
      entries.next()
    }
    return size(sample, CompactionTombstones([memTable], snapshots: []).covering)
  }

  // MARK: - Single keys

  /// Adjacent keys of a sample that one table may have.
  private struct Group {
    let table: TableMetadata
    var keys: Range<Int>
  }

  private func pointSize(_ sample: borrowing TombstoneSample) throws(EngineError) -> Double {
    if sample.count == 0 { return 0 }
    // The probability that no newer tombstone hides what is below.
    var weights = [Double](repeating: 1, count: sample.count)
    var total = 0.0
    for run in runs {
      let groups = groups(sample, run)
      let chosen = Self.evenly(groups, max(tableMaximum / runs.count, 1))
      var found = 0.0
      var askedCount = 0
      for group in chosen {
        let reader = try readers.reader(group.table)
        askedCount += group.keys.count
        for key in group.keys where weights[key] > 0 {
          guard let entry = try reader.averageEntry(of: sample[key], hash: sample.hash(key)) else { continue }
          found += weights[key] * entry.size
          weights[key] *= 1 - entry.tombstoneShare
        }
      }
      let count = groups.reduce(0) { $0 + $1.keys.count }
      if askedCount > 0 { total += found * Double(count) / Double(askedCount) }
    }
    return total * Double(sample.tombstoneCount) / Double(sample.count)
  }

  private func groups(_ sample: borrowing TombstoneSample, _ run: SortedRun) -> [Group] {
    var groups: [Group] = []
    for key in 0..<sample.count {
      if let last = groups.last, last.table.covers(sample[key]) {
        groups[groups.count - 1].keys = last.keys.lowerBound..<(key + 1)
      } else if let table = run.table(covering: sample[key]) {
        groups.append(Group(table: table, keys: key..<(key + 1)))
      }
    }
    return groups
  }

  /// Returns at most `maximum` elements, evenly chosen.
  private static func evenly<T>(_ all: [T], _ maximum: Int) -> [T] {
    if all.count <= maximum { return all }
    return (0..<maximum).map { all[$0 * all.count / maximum] }
  }

  // MARK: - Ranges

  private struct KeyRange {
    let start: ByteView
    var end: ByteView
  }

  private func rangeSize(_ list: RangeTombstoneList) throws(EngineError) -> Double {
    let ranges = joined(list)
    if ranges.isEmpty { return 0 }
    var chosen = Self.evenly(ranges, Self.rangeMaximum)
    while chosen.count > 1, cutTables(chosen) > tableMaximum { chosen = Self.evenly(chosen, chosen.count / 2) }
    var size = 0.0
    for range in chosen {
      for run in runs { size += try self.size(range, run) }
    }
    return size * Double(ranges.count) / Double(chosen.count)
  }

  /// Returns the ranges of a list, adjacent ones as one.
  private func joined(_ list: RangeTombstoneList) -> [KeyRange] {
    var ranges: [KeyRange] = []
    for index in 0..<list.count {
      if let last = ranges.last, last.end == list.start(index) {
        ranges[ranges.count - 1].end = list.end(index)
      } else {
        ranges.append(KeyRange(start: list.start(index), end: list.end(index)))
      }
    }
    return ranges
  }

  /// Returns the number of tables in which a range begins or ends.
  private func cutTables(_ ranges: [KeyRange]) -> Int {
    var count = 0
    for run in runs {
      var last: FileNumber?
      for range in ranges {
        for key in [range.start, range.end] {
          guard let table = run.table(covering: key), table.number != last else { continue }
          last = table.number
          count += 1
        }
      }
    }
    return count
  }

  private func size(_ range: KeyRange, _ run: SortedRun) throws(EngineError) -> Double {
    let overlap = run.overlap(UserKeyRange(lower: range.start.bytes, upper: range.end.bytes, upperIsExcluded: true))
    guard let first = overlap.first, let last = overlap.last else { return 0 }
    var size = try self.size(range, run.tables[first])
    if last != first { size += try self.size(range, run.tables[last]) }
    if countsCovered, last - first > 1 { size += Double(run.size(of: (first + 1)..<last)) }
    return size
  }

  private func size(_ range: KeyRange, _ table: TableMetadata) throws(EngineError) -> Double {
    let beginsInside = table.smallest < range.start
    let endsInside = !table.endsBefore(range.end)
    guard beginsInside || endsInside else { return countsCovered ? Double(table.fileSize) : 0 }
    let reader = try readers.reader(table)
    let begin = beginsInside ? try reader.location(of: range.start).offset : 0
    let end = endsInside ? try reader.location(of: range.end).offset : reader.footer.dataSize
    return end > begin ? Double(end - begin) * reader.sizePerDataByte : 0
  }
}
