/// Finds the tables of a family that lie completely under range tombstones: all of their entries are dead, so they are
/// dropped without being read.
///
/// # Rule
/// A table is dropped if each of its keys is under a range tombstone of another table of the family that is newer than
/// all of its entries and that every reader sees. Proof: such a tombstone hides each entry of the table from all
/// readers, now and later, and is itself dropped only when nothing that it covers is left. The same is true of the
/// table's own tombstones: what they hide is older than they are, under the same range, and hidden as well.
///
/// # Cost
/// A pair of tables (cover, covered) is examined when the later of the two was added, and when the oldest reader
/// advanced:
///
/// - A new table may be covered by a table whose bounds include the new one's smallest key: at most one in each sorted
///   run, found by a binary search.
/// - A new table with range tombstones may cover tables within its bounds. Its list is read only if there are older
///   ones; then either each of them is searched for in the list, or each range of the list in the runs, whichever are
///   fewer.
///
/// New tables are found by the ids of the chunks that two versions don't share. A covered table is remembered until it
/// is gone: it may be an input of a running compaction.
///
/// # Invariants
/// 1. No table is retained: only numbers and keys are remembered.
/// 2. A pair in `found` was valid for an oldest reader no newer than the present one; it counts as long as both tables
///    exist.
struct CoveredTables: Sendable {
  /// A table's number, and a key by which it is found in a version.
  private struct Known: Sendable {
    let number: FileNumber
    let key: [UInt8]

    init(_ table: TableMetadata) {
      number = table.number
      key = table.smallestKey
    }

    func find(in version: Version) -> (table: TableMetadata, level: Int)? {
      key.withByteView { version.find(number, at: $0) }
    }
  }

  private struct Pair: Sendable {
    let covered: Known
    let cover: Known
  }

  /// Returns the range tombstones of a table, or `nil` if they can't be read.
  typealias Reader = (TableMetadata) -> RangeTombstoneList?

  /// The numbers of the tables of each chunk of the last version, by the chunk's id.
  private var chunks: [UInt64: [FileNumber]] = [:]
  /// The oldest snapshot at the last update. No reader saw an older state.
  private var oldestSnapshot = SequenceNumber.zero
  private var found: [FileNumber: Pair] = [:]
  /// Tables whose tombstones could not be read. The next update reads them again.
  private var unread: [FileNumber: Known] = [:]
  /// The number of pairs of tables examined, which is the cost of the updates.
  private(set) var examinedCount = 0

  init() {}

  // MARK: - Search

  /// Updates the known covered tables to a version. No reader sees a state older than `oldestSnapshot`.
  mutating func update(to version: Version, oldestSnapshot: SequenceNumber, _ read: Reader) {
    var new = takeNew(in: version)
    var covers = new.filter { $0.rangeTombstoneCount > 0 }
    if oldestSnapshot != self.oldestSnapshot {
      let before = self.oldestSnapshot
      version.forEachRun { run, _ in
        for chunk in run.tombstoneChunks where chunk.largestSequence > before {
          covers += chunk.tombstoneTables.filter { $0.largestSequence > before }
        }
      }
      self.oldestSnapshot = oldestSnapshot
    }
    covers += unread.values.compactMap { $0.find(in: version)?.table }
    unread = [:]
    for (number, pair) in found {
      guard let table = pair.covered.find(in: version)?.table else {
        found[number] = nil
        continue
      }
      if pair.cover.find(in: version) == nil {
        found[number] = nil
        new.append(table)
      }
    }
    for table in new { findCover(of: table, in: version, read) }
    for cover in covers { findCovered(by: cover, in: version, read) }
  }

  /// The tables that the previous version did not have.
  private mutating func takeNew(in version: Version) -> [TableMetadata] {
    var fresh: [TableChunk] = []
    var present: Set<UInt64> = []
    version.forEachRun { run, _ in
      for chunk in run.chunks {
        present.insert(chunk.id)
        if chunks[chunk.id] == nil { fresh.append(chunk) }
      }
    }
    if fresh.isEmpty, present.count == chunks.count { return [] }
    var old: Set<FileNumber> = []
    for (id, numbers) in chunks where !present.contains(id) {
      old.formUnion(numbers)
      chunks[id] = nil
    }
    var new: [TableMetadata] = []
    for chunk in fresh {
      chunks[chunk.id] = chunk.tables.map(\.number)
      new += chunk.tables.filter { !old.contains($0.number) }
    }
    return new
  }

  /// Searches for a table that covers `table`: one whose bounds include the smallest key of `table`.
  private mutating func findCover(of table: TableMetadata, in version: Version, _ read: Reader) {
    guard found[table.number] == nil, table.largestSequence < oldestSnapshot else { return }
    version.forEachRun { run, _ in
      guard run.hasRangeTombstones, let cover = run.table(covering: table.smallest) else { return }
      guard Self.mayCover(cover, table) else { return }
      guard unread[cover.number] == nil else { return }
      if let list = read(cover) { examine(table, cover, list) } else { unread[cover.number] = Known(cover) }
    }
  }

  /// Searches for tables that `cover` covers.
  private mutating func findCovered(by cover: TableMetadata, in version: Version, _ read: Reader) {
    var list: RangeTombstoneList?
    var ranges: [(start: ByteView, end: ByteView)]?
    version.forEachRun { run, _ in
      let overlap = run.overlap(cover)
      guard hasOlder(overlap, of: run, than: cover) else { return }
      guard unread[cover.number] == nil else { return }
      list = list ?? read(cover)
      guard let list else { return unread[cover.number] = Known(cover) }
      if overlap.count > 4 {
        let all = ranges ?? list.ranges
        ranges = all
        if all.count < overlap.count { return findCovered(by: cover, list, all, in: run) }
      }
      for table in run.tables.array(in: overlap) where found[table.number] == nil { examine(table, cover, list) }
    }
  }

  /// Returns whether a table at `overlap` may be covered by `cover`, judging by bounds and sequences.
  private func hasOlder(_ overlap: Range<Int>, of run: SortedRun, than cover: TableMetadata) -> Bool {
    // All tables of `overlap` except the first and the last lie within the bounds of the cover.
    let isThere: Bool? = run.first(in: overlap, ofChunks: { _ in true }) { _, table in
      Self.mayCover(cover, table) && table.smallest.compare(cover.smallest) >= 0 ? true : nil
    }
    return isThere ?? false
  }

  private mutating func findCovered(
    by cover: TableMetadata, _ list: RangeTombstoneList, _ ranges: [(start: ByteView, end: ByteView)],
    in run: SortedRun
  ) {
    for range in ranges {
      var index = run.firstIndex(notBefore: range.start)
      while index < run.count {
        let table = run.tables[index]
        index += 1
        guard table.endsBefore(range.end) else { break }
        if found[table.number] == nil, table.smallest.compare(range.start) >= 0 { examine(table, cover, list) }
      }
    }
  }

  /// Returns whether one table may cover the other, judging by sequences and bounds.
  private static func mayCover(_ cover: TableMetadata, _ table: TableMetadata) -> Bool {
    cover !== table && cover.rangeTombstoneCount > 0 && cover.largestSequence > table.largestSequence
      && cover.largest.compare(table.largest) >= 0
  }

  private mutating func examine(_ table: TableMetadata, _ cover: TableMetadata, _ list: RangeTombstoneList) {
    guard cover !== table, table.largestSequence < oldestSnapshot else { return }
    examinedCount += 1
    guard Self.covers(list, table, oldestSnapshot: oldestSnapshot) else { return }
    found[table.number] = Pair(covered: Known(table), cover: Known(cover))
  }

  /// Returns whether fragments of one list cover the table without a gap.
  static func covers(_ list: RangeTombstoneList, _ table: TableMetadata, oldestSnapshot: SequenceNumber) -> Bool {
    var key = table.smallest
    var index = list.firstIndex(endingAfter: key)
    while index < list.count {
      guard list.start(index) <= key, list.newest(index, at: oldestSnapshot) > table.largestSequence else {
        return false
      }
      key = list.end(index)
      if table.largest < key || (table.largestIsExcluded && table.largest == key) { return true }
      index += 1
    }
    return false
  }

  // MARK: - Results

  /// Returns the idle tables that can be dropped, by level. The array is empty if there are none.
  ///
  /// Complexity: a binary search in each run for each covered table. Opens no table.
  func idle(in version: Version, _ inProgress: CompactionsInProgress) -> [Compaction.Input] {
    if found.isEmpty { return [] }
    var levels = [[TableMetadata]](repeating: [], count: Limits.levelCount)
    for number in found.keys.sorted() {
      guard let pair = found[number], let (table, level) = pair.covered.find(in: version),
        !inProgress.isBusy(table), pair.cover.find(in: version) != nil
      else { continue }
      levels[level].append(table)
    }
    return levels.enumerated().filter { !$0.element.isEmpty }.map { level, tables in
      Compaction.Input(
        level: level, tables: tables.sorted(by: level == 0 ? TableMetadata.isNewerFirst : TableMetadata.isSmallerFirst))
    }
  }
}

extension RangeTombstoneList {
  /// The ranges of keys that fragments cover without a gap, ascending.
  fileprivate var ranges: [(start: ByteView, end: ByteView)] {
    var ranges: [(start: ByteView, end: ByteView)] = []
    for index in 0..<count {
      if let last = ranges.last, last.end == start(index) {
        ranges[ranges.count - 1].end = end(index)
      } else {
        ranges.append((start(index), end(index)))
      }
    }
    return ranges
  }
}
