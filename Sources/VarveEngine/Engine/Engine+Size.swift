/// The approximate number of bytes that a range of keys takes.
public struct ApproximateSize: Sendable, Hashable {
  /// Bytes of tables on disk: all entries of the range, including overwritten ones and tombstones, with their share of
  /// filters and indexes.
  public internal(set) var tableBytes: UInt64 = 0
  /// The maximum error of `tableBytes`: the blocks in which the range begins and ends, of each table that extends
  /// beyond it. For a table of a few blocks that is a few kilobytes.
  public internal(set) var tableBytesError: UInt64 = 0
  /// Bytes of memtables: the share of the range's entries in each memtable's used bytes. Exact in the number of
  /// entries, and as accurate as their sizes are similar.
  public internal(set) var memTableBytes: UInt64 = 0

  /// The sum of `tableBytes` and `memTableBytes`.
  public var total: UInt64 { tableBytes + memTableBytes }
}

extension Engine {
  /// Returns the approximate number of bytes that the keys of a family within `range` take, from the indexes of the
  /// tables and without reading data.
  ///
  /// The size in tables is wrong by at most `tableBytesError`, apart from filters and indexes, whose share is assumed
  /// to equal that of the data. An empty or reversed range has size 0.
  ///
  /// Throws `.familyDropped`, and errors of opening a table. Safe from any thread. Complexity: two searches in the
  /// index of each table that extends beyond the range, at most two per sorted run; O(1) for each table inside; and in
  /// memtables O(entries of the range / 40).
  public func approximateSize(
    of range: CursorBounds = .all, in family: ColumnFamily? = nil
  ) throws(EngineError) -> ApproximateSize {
    try core.requireOpen()
    let state = core.state(of: family)
    if state.isDropped { throw CommitPipeline.droppedError(state) }
    let lower = range.lower ?? []
    if let upper = range.upper, KeyBytes.compare(upper, lower) <= 0 { return ApproximateSize() }
    let view = state.retainView()
    let keys = UserKeyRange(lower: lower, upper: range.upper, upperIsExcluded: true)
    var size = ApproximateSize()
    for table in [view.memTable] + view.frozen { size.memTableBytes += Self.size(of: keys, in: table) }
    for level in 0..<Limits.levelCount {
      for table in view.version.overlap(level: level, keys) { try add(table, keys, to: &size) }
    }
    return size
  }

  private static func size(of range: UserKeyRange, in table: MemTable) -> UInt64 {
    let total = table.entryCount
    guard total > 0 else { return 0 }
    let count = range.lower.withByteView { lower in
      range.upper.map { $0.withByteView { table.entryCount(from: lower, to: $0) } }
        ?? table.entryCount(from: lower, to: nil)
    }
    return UInt64(Double(table.usedBytes) * Double(min(count, total)) / Double(total))
  }

  private func add(
    _ table: TableMetadata, _ range: UserKeyRange, to size: inout ApproximateSize
  ) throws(EngineError) {
    if range.contains(table) {
      size.tableBytes += table.fileSize
      return
    }
    let reader = try core.tree.reader(table)
    let dataSize = reader.footer.dataSize
    guard dataSize > 0 else { return }
    let begin = try range.lower.withByteView { (key) throws(EngineError) in try reader.location(of: key) }
    let end = try range.upper?.withByteView { (key) throws(EngineError) in try reader.location(of: key) }
    // The block in which the range begins counts, the one in which it ends does not.
    let bytes = max(end?.offset ?? dataSize, begin.offset) - begin.offset
    // A bound before the table's first key cuts no block; one after its last finds none.
    let cutAtBegin = KeyBytes.compare(table.smallest, range.lower) < 0 ? begin.blockSize : 0
    let cuts = cutAtBegin + (end?.blockSize ?? 0)
    let share = Double(table.fileSize) / Double(dataSize)
    size.tableBytes += UInt64(Double(bytes) * share)
    size.tableBytesError += UInt64((Double(cuts) * share).rounded(.up))
  }
}
