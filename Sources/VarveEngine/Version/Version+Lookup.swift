extension Version {
  /// Calls `body` with each table whose bounds include `userKey`, newest entries first, until it returns false.
  ///
  /// The lookup searches level 0 sublevel by sublevel from the newest, then the levels downwards: the first table
  /// that has an entry of the key visible at the read's sequence has the newest one. (A range tombstone is such an
  /// entry; after a merge operand the search continues.) Tables without an entry at or below `sequence` are skipped.
  ///
  /// Complexity: one binary search over 8-byte heads per sublevel and level, without an allocation.
  @inline(__always)
  func forEachTable<Failure>(
    thatMayHold userKey: ByteView, at sequence: SequenceNumber = .maximum,
    _ body: (_ table: TableMetadata) throws(Failure) -> Bool
  ) throws(Failure) {
    var index = 0
    while index < searchedCount {
      defer { index &+= 1 }
      guard let table = table(covering: userKey, inRun: index) else { continue }
      guard table.smallestSequence <= sequence else { continue }
      guard try body(table) else { return }
    }
  }

  /// Returns the tables of a level that overlap `range`, in the level's order.
  func overlap(level: Int, _ range: UserKeyRange) -> [TableMetadata] {
    if level == 0 { return levelZero.tables.filter { range.overlaps($0) } }
    let run = run(level)
    return run.tables.array(in: run.overlap(range))
  }

  /// Returns the approximate size of the tables that overlap `range`, in bytes. Partially overlapping tables count
  /// half. It opens no file.
  func approximateSize(of range: UserKeyRange) -> UInt64 {
    var total: UInt64 = 0
    for table in levelZero.tables where range.overlaps(table) {
      total += range.contains(table) ? table.fileSize : table.fileSize / 2
    }
    for level in 1..<Limits.levelCount {
      let run = run(level)
      let overlap = run.overlap(range)
      guard let first = overlap.first, let last = overlap.last else { continue }
      total += run.size(of: overlap)
      // All tables between the first and the last are within the range.
      for index in Set([first, last]) where !range.contains(run.tables[index]) {
        total -= run.tables[index].fileSize - run.tables[index].fileSize / 2
      }
    }
    return total
  }

  /// Returns the keys at which a flush should cut its output, ascending; the cut is before the key.
  ///
  /// The keys are bounds of the base level, so that every piece is about `targetSize` bytes of base-level data wide
  /// and level 0 can be compacted in parallel parts.
  func flushSplitKeys(baseLevel: Int, targetSize: UInt64) -> [[UInt8]] {
    var keys: [[UInt8]] = []
    var size: UInt64 = 0
    for chunk in run(baseLevel).chunks {
      // If no cut falls into a chunk, only its sum counts.
      if size + chunk.totalSize < targetSize {
        size += chunk.totalSize
        continue
      }
      for table in chunk.tables {
        if size >= targetSize {
          keys.append(table.smallestKey)
          size = 0
        }
        size += table.fileSize
      }
    }
    return keys
  }
}
