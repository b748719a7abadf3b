/// Finds tables that lie wholly under range tombstones: whatever they hold is dead, so they are dropped
/// without being read.
///
/// # Rule
/// A table goes where each of its keys is under a range tombstone of another table of the family that is newer than
/// all of its entries and that every reader sees. Proof: such a tombstone hides each entry of the table from
/// everybody, now and later, and goes itself only where nothing of what it covers is left. Of the table's own
/// tombstones the same is true: what they hide is older than they are, under the same stretch, and hidden as well.
struct CoveredTables {
  /// No reader sees less than this.
  private let oldestSnapshot: SequenceNumber
  private var lists: [(table: TableMetadata, range: UserKeyRange, list: RangeTombstoneList)] = []

  init(oldestSnapshot: SequenceNumber) { self.oldestSnapshot = oldestSnapshot }

  /// Adds the range tombstones of a table.
  mutating func add(_ list: RangeTombstoneList, of table: TableMetadata) {
    guard !list.isEmpty, list.smallestSequence <= oldestSnapshot else { return }
    lists.append((table, UserKeyRange(table), list))
  }

  /// What of a family can go, by level; idle tables only. Empty: nothing.
  ///
  /// Complexity: for each table and each list that it overlaps, a search in that list.
  func find(in version: Version, _ inProgress: CompactionsInProgress) -> [Compaction.Input] {
    if lists.isEmpty { return [] }
    var found: [Compaction.Input] = []
    for level in 0..<Limits.levelCount {
      let tables = version.tables(level: level).filter { !inProgress.isBusy($0) && isCovered($0) }
      if !tables.isEmpty { found.append(Compaction.Input(level: level, tables: tables)) }
    }
    return found
  }

  private func isCovered(_ table: TableMetadata) -> Bool {
    guard table.largestSequence < oldestSnapshot else { return false }
    return lists.contains { $0.table !== table && $0.range.overlaps(table) && covers($0.list, table) }
  }

  /// Whether fragments of one list, without a gap, cover the table.
  private func covers(_ list: RangeTombstoneList, _ table: TableMetadata) -> Bool {
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
}
