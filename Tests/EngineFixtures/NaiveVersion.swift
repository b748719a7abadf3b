@testable import VarveEngine

/// A Version as a plain list of tables by level, which answers every question by a search of all tables.
struct NaiveVersion {
  /// The tables of each level: level 0 newest first, the other levels in key order.
  var levels = [[TableMetadata]](repeating: [], count: Limits.levelCount)

  var all: [(level: Int, table: TableMetadata)] {
    levels.enumerated().flatMap { level, tables in tables.map { (level, $0) } }
  }

  mutating func delete(_ table: TableMetadata, level: Int) { levels[level].removeAll { $0 === table } }

  mutating func add(_ table: TableMetadata, level: Int) {
    levels[level].append(table)
    levels[level].sort(by: level == 0 ? TableMetadata.isNewerFirst : TableMetadata.isSmallerFirst)
  }

  /// The tables of level 0 by sublevel, computed by a comparison of each table with all older ones.
  var sublevels: [[UInt64]] {
    var found: [[TableMetadata]] = []
    var levelOf: [FileNumber: Int] = [:]
    for (index, table) in levels[0].enumerated().reversed() {
      let under = levels[0][(index + 1)...].filter { $0.overlaps(table) }.compactMap { levelOf[$0.number] }
      let level = (under.max() ?? -1) + 1
      levelOf[table.number] = level
      if level == found.count { found.append([]) }
      found[level].append(table)
    }
    return found.map { $0.sorted(by: TableMetadata.isSmallerFirst).map(\.number.value) }
  }

  /// Returns whether a table may be added to a level.
  func hasRoom(for table: TableMetadata, level: Int) -> Bool {
    levels[level].allSatisfy {
      !$0.overlaps(table) || (level == 0 && ($0.isOlder(than: table) || table.isOlder(than: $0)))
    }
  }

  /// Returns a description of the first difference from a Version, or `nil` if there is none.
  func difference(from version: Version) -> String? {
    for level in 0..<Limits.levelCount {
      let tables = version.tables(level: level)
      if tables.map(\.number) != levels[level].map(\.number) { return "the tables of level \(level)" }
      let size = levels[level].reduce(0) { $0 + $1.fileSize }
      if version.size(level: level) != size { return "the size of level \(level)" }
      guard level > 0 else { continue }
      let run = version.run(level)
      if run.compensatedSize != levels[level].reduce(0, { $0 + $1.compensatedSize }) { return "compensated sizes" }
      let tombstoneTables = levels[level].filter { $0.rangeTombstoneCount > 0 }
      if run.hasRangeTombstones == tombstoneTables.isEmpty { return "range tombstones" }
      if run.tombstoneChunks.flatMap(\.tombstoneTables).map(\.number) != tombstoneTables.map(\.number) {
        return "the tables with range tombstones"
      }
      if run.largestSequence != levels[level].map(\.largestSequence).max() ?? .zero {
        return "the newest entry of a run"
      }
      if run.chunks.contains(where: { $0.tables.count > TableChunk.countMaximum }) { return "a chunk too large" }
      if run.tables.indices.contains(where: { run.tables[$0] !== levels[level][$0] }) { return "a table by its index" }
    }
    if version.levelZero.sublevels.map({ $0.tables.map(\.number.value) }) != sublevels { return "the sublevels" }
    if version.tableCount != all.count { return "the count of tables" }
    if version.largestSequence != all.map(\.table.largestSequence).max() ?? .zero { return "the newest entry" }
    let tombstoneCount = all.count { $0.table.rangeTombstoneCount > 0 }
    if version.rangeTombstoneTableCount(upTo: .max) != tombstoneCount { return "the count with range tombstones" }
    if version.rangeTombstoneTableCount(upTo: 3) != min(tombstoneCount, 3) { return "the count up to a bound" }
    return nil
  }

  /// Returns a description of the first difference from a Version at a key and a range, or `nil` if there is none.
  func difference(from version: Version, at key: [UInt8], _ range: UserKeyRange) -> String? {
    for level in 1..<Limits.levelCount {
      let run = version.run(level)
      let index = key.withByteView { key in levels[level].firstIndex { !$0.endsBefore(key) } } ?? levels[level].count
      if key.withByteView({ run.firstIndex(notBefore: $0) }) != index { return "the first table not before a key" }
      let covering = key.withByteView { key in levels[level].first { $0.covers(key) } }
      if key.withByteView({ run.table(covering: $0) }) !== covering { return "the table that covers a key" }
      let overlap = run.overlap(range)
      let expected = levels[level].indices.filter { range.overlaps(levels[level][$0]) }
      if Array(overlap) != expected { return "the overlap of a range: \(overlap) is not \(expected)" }
      if run.size(of: overlap) != expected.reduce(0, { $0 + levels[level][$1].fileSize }) { return "a size of tables" }
      if run.tables.array(in: overlap).map(\.number) != expected.map({ levels[level][$0].number }) { return "a copy" }
    }
    return nil
  }
}
