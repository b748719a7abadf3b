/// Moves tombstones towards the bottom, where they meet what they hide.
///
/// # What a table's tombstones must free
/// A table whose tombstones hide a share of what its compaction rewrites, the table itself and those that it overlaps
/// on the next level, is compacted without waiting for its level to be full: half while writes continue, and a tenth in
/// a pause (`rewriteShare`). So each freed byte costs at most ten written ones on a level. Tables without an estimate,
/// and tombstones that hide little, move if they are most of their table and overlap little.
///
/// # A table is compacted once
/// The outputs are on the next level, with an estimate of what they hide below that, until there is nothing. What a
/// reader needs is not freed, so tables wait until every reader sees all of their entries (`sequenceAwaited`).
extension LeveledCompactionPicker {
  /// Picks a table above the bottom whose tombstones free much, or that is mostly tombstones, with the tables it
  /// overlaps below.
  func pickTombstones(_ input: Input, _ seeds: inout LevelSeeds) -> Compaction? {
    let share = rewriteShare(input)
    for level in 1..<LevelTargets.bottomLevel {
      let run = input.version.run(level)
      let found = seeds.firstTombstones(level: level, of: input.version, share: share) { index -> Compaction? in
        let table = run.tables[index]
        guard table.largestSequence <= input.oldestSnapshot, !input.isBusy(table) else { return nil }
        return expand(level, index, input, reason: .tombstones, score: 0.5)
      }
      if let found { return found }
    }
    return nil
  }

  /// Picks tables of level 0 whose tombstones free much for what they overlap on the base level, into that.
  ///
  /// The tables that free most for their overlap are tried first, and then more together, because the tombstones of
  /// several flushes may be in the same tables below. Called in a pause of the writes: while they continue, level 0
  /// waits until it is deep.
  func pickLevelZeroTombstones(_ input: Input, _ targets: LevelTargets) -> Compaction? {
    let tables = input.version.levelZero.tables
    let base = input.version.run(targets.baseLevel)
    var candidates: [LevelZeroTombstones] = []
    for (index, table) in tables.enumerated() where (table.shadowedSize ?? 0) > 0 {
      guard table.largestSequence <= input.oldestSnapshot, !input.isBusy(table), !input.stuck.contains(table) else {
        continue
      }
      let overlap = base.overlap(table)
      candidates.append(
        LevelZeroTombstones(
          index: index, size: table.fileSize, shadowed: table.shadowedSize ?? 0, overlap: overlap,
          overlapSize: base.size(of: overlap)))
    }
    candidates.sort { $0.worth != $1.worth ? $0.worth > $1.worth : $0.index < $1.index }
    let share = rewriteShare(input)
    var count = 1
    while !candidates.isEmpty {
      let chosen = candidates.prefix(count)
      if LevelZeroTombstones.worth(of: chosen, base) >= share,
        let compaction = pickBase(
          containing: chosen.map(\.index).sorted(), input, targets, reason: .tombstones, score: 0.5)
      {
        return compaction
      }
      if count >= candidates.count { return nil }
      count *= 2
    }
    return nil
  }

  /// Returns the estimated bytes that compactions of tables for their tombstones free, once all of them have run.
  ///
  /// Complexity: linear in the tables.
  func freeableSize(_ input: Input) -> UInt64 {
    var size: UInt64 = 0
    input.version.forEachTable { table, _ in
      guard table.largestSequence <= input.oldestSnapshot, table.shadowShare >= options.idleRewriteShare else { return }
      size += table.garbageSize
    }
    // Tombstones may hide the same entries.
    return min(size, input.version.totalSize)
  }

  /// Calls `note` with each table above the bottom that is compacted for its tombstones once every reader sees all of
  /// its entries, or that may be.
  ///
  /// Complexity: chunks without such tables are not searched.
  func forEachWithTombstones(_ input: Input, _ note: (TableMetadata) -> Void) {
    for table in input.version.levelZero.tables where (table.shadowedSize ?? 0) > 0 { note(table) }
    for level in 1..<LevelTargets.bottomLevel {
      func mayHave(_ chunk: TableChunk) -> Bool {
        chunk.largestSequence > input.oldestSnapshot
          && (chunk.hasMostlyTombstones || chunk.shadowShare >= options.idleRewriteShare)
      }
      input.version.run(level).forEachTable(ofChunks: mayHave) { table in
        if table.isMostlyTombstones || table.shadowShare >= options.idleRewriteShare { note(table) }
      }
    }
  }
}

/// A table of level 0 whose tombstones hide something.
private struct LevelZeroTombstones {
  /// The index in the tables of level 0.
  let index: Int
  let size: UInt64
  let shadowed: UInt64
  /// The tables of the base level that it overlaps, and their size.
  let overlap: Range<Int>
  let overlapSize: UInt64

  /// The bytes that the tombstones hide for each byte of the table and its overlap.
  var worth: Double { Double(shadowed) / Double(max(size + overlapSize, 1)) }

  /// Returns the bytes that the tombstones of several tables hide for each byte of the tables and their overlap.
  static func worth(of tables: some Collection<LevelZeroTombstones>, _ base: SortedRun) -> Double {
    var size: UInt64 = 0
    var shadowed: UInt64 = 0
    var end = 0
    for table in tables.sorted(by: { $0.overlap.lowerBound < $1.overlap.lowerBound }) {
      size += table.size
      shadowed += table.shadowed
      let start = max(table.overlap.lowerBound, end)
      guard start < table.overlap.upperBound else { continue }
      size += base.size(of: start..<table.overlap.upperBound)
      end = table.overlap.upperBound
    }
    return Double(shadowed) / Double(max(size, 1))
  }
}
