/// Rewrites single tables on their level, without what no reader needs any more.
///
/// A merge of several tables removes what one of them hides in another, but a table that no merge reaches, such as one
/// of the last level, keeps what it was written with. Two kinds of entries can be removed from a table alone:
///
/// - Hidden entries (`HiddenEntries`), on every level, once every reader sees what hides them.
/// - Tombstones of the deepest level, once every reader sees all entries of the table.
///
/// # A table is rewritten once
/// The outputs have none of the entries for which the table was chosen: all readers see them in one state, so each rule
/// of `CompactionIterator` applies. What stays hidden is free at a later sequence than the oldest reader, and what
/// can't be removed is not counted. So the outputs are chosen only after the oldest reader has advanced.
extension LeveledCompactionPicker {
  /// The share of a table that must be removable for the table to be rewritten now.
  func rewriteShare(_ input: Input) -> Double { input.isSettling ? options.idleRewriteShare : options.rewriteShare }

  /// Picks a table of `range` of which at least `share` can be removed, the deepest levels first.
  ///
  /// Tables without entries at or below `newest` are skipped. A share of zero means any entry, for a requested
  /// compaction, which may take more space than there is.
  func pickRewrite(
    _ input: Input, in range: UserKeyRange, share: Double, newest: SequenceNumber = .maximum
  ) -> ManualPick {
    var isBlocked = false
    let found = forEachRewritable(input, in: range, share: share) { table, level, freeAt -> Compaction? in
      guard freeAt <= input.oldestSnapshot, table.smallestSequence <= newest, !input.isSuspect(table) else {
        return nil
      }
      let bounds = UserKeyRange(table)
      guard !input.inProgress.isBusy(table),
        !input.inProgress.hasOutputs(of: input.family, level: level, overlapping: bounds)
      else {
        isBlocked = true
        return nil
      }
      let compaction = Compaction(
        family: input.family, reason: table.hidden.isEmpty ? .tombstones : .released,
        inputs: [Compaction.Input(level: level, tables: [table])], outputLevel: level, range: bounds,
        version: input.version, targetFileSize: targetFileSize(input, level: level), score: 0.5)
      return share > 0 ? input.fitting(compaction) : compaction
    }
    return found.map { .compaction($0) } ?? (isBlocked ? .blocked : .done)
  }

  /// Calls `body` with each table of `range` of which at least `share` can be removed now or later, its level, and the
  /// lowest sequence that all readers must see before. Returns the first result that is not `nil`.
  ///
  /// Complexity: chunks without such tables are not searched.
  @discardableResult
  func forEachRewritable(
    _ input: Input, in range: UserKeyRange, share: Double,
    _ body: (_ table: TableMetadata, _ level: Int, _ freeAt: SequenceNumber) -> Compaction?
  ) -> Compaction? {
    let version = input.version
    let deepest = version.deepestLevel ?? 0
    for level in (1..<Limits.levelCount).reversed() {
      let run = version.run(level)
      if run.isEmpty { continue }
      let mayDropTombstones = level == deepest
      func has(_ chunk: TableChunk) -> Bool {
        isEnough(chunk.hiddenShare, share) || (mayDropTombstones && isEnough(chunk.tombstoneShare, share))
      }
      let found = run.first(in: run.overlap(range), ofChunks: has) { _, table -> Compaction? in
        let tombstonesAt =
          mayDropTombstones && isEnough(table.tombstoneShare, share) ? table.largestSequence : .maximum
        let hiddenAt = table.hidden.sequence(freeing: table.hiddenSize(ofShare: share)) ?? .maximum
        let freeAt = min(tombstonesAt, hiddenAt)
        return freeAt == .maximum ? nil : body(table, level, freeAt)
      }
      if let found { return found }
    }
    for table in version.levelZero.tables where !table.hidden.isEmpty && range.overlaps(table) {
      guard let freeAt = table.hidden.sequence(freeing: table.hiddenSize(ofShare: share)) else { continue }
      if let found = body(table, 0, freeAt) { return found }
    }
    return nil
  }

  private func isEnough(_ part: Double, _ share: Double) -> Bool { part > 0 && part >= share }
}
