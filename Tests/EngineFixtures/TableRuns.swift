import EngineTestSupport

@testable import VarveEngine

/// A set of tables in memory, which also opens their readers.
final class TableRuns: TableReaders, @unchecked Sendable {
  // Sendable: one test fills it before it is read.
  private(set) var tables: [FileNumber: TestTable] = [:]

  func reader(_ table: TableMetadata) throws(EngineError) -> TableReader {
    guard let known = tables[table.number] else { throw EngineError(.notFound, "no table \(table.number)") }
    return known.reader
  }

  /// Adds a run of tables of about `tableSize` entries each. No key has entries in two tables.
  func add(_ entries: [TextEntry], tableSize: Int) throws -> SortedRun {
    let sorted = entries.sorted(by: TextEntry.isInOrder)
    var run: [TableMetadata] = []
    var start = 0
    while start < sorted.count {
      var end = min(sorted.count, start + tableSize)
      while end < sorted.count, sorted[end].key == sorted[end - 1].key { end += 1 }
      run.append(try add(Array(sorted[start..<end])))
      start = end
    }
    return SortedRun(run)
  }

  private func add(_ entries: [TextEntry]) throws -> TableMetadata {
    let number = FileNumber(UInt64(tables.count + 1))
    let rows = entries.map { entry in
      Entry(
        key: entry.key, sequence: entry.sequence, kind: entry.trailer.kind ?? .merge, value: entry.value)
    }
    let table = try TestTable(rows, .small, tableID: number.value &* 0x9e37_79b9_7f4a_7c15)
    tables[number] = table
    let summary = table.summary
    let smallest = OwnedBytes(summary.smallestKey)
    let largest = OwnedBytes(summary.largestKey)
    return TableMetadata(
      number: number, fileSize: summary.fileSize, tableID: summary.tableID, smallestKey: smallest.view,
      smallestTrailer: summary.smallestTrailer, largestKey: largest.view, largestTrailer: summary.largestTrailer,
      smallestSequence: summary.smallestSequence, largestSequence: summary.largestSequence,
      entryCount: summary.entryCount, tombstoneCount: summary.tombstoneCount, rawSize: summary.rawSize)
  }

  static func memtable(_ entries: [TextEntry]) -> MemTable {
    let table = MemTable(capacity: 1 << 20)
    for entry in entries {
      let key = OwnedBytes(entry.key)
      let value = OwnedBytes(entry.value)
      table.insert(key.view, entry.trailer, value.view)
    }
    return table
  }
}
