internal import Synchronization

/// Takes views back from cursors, so that memtables and tables that the database has replaced can be released.
extension BackgroundWork {
  /// The number of changes of its family's memtables or tables after which a cursor's view is taken back even if the
  /// obsolete objects are small.
  ///
  /// The bound exists because a view retains memory besides the files of tables.
  private static let viewAgeMaximum: UInt64 = 8

  /// Returns the bytes of obsolete files that cursors may keep: a quarter of the database, but at least two tables.
  private func pinnedBytesMaximum(_ tableBytes: UInt64) -> UInt64 { max(tableBytes / 4, 2 * plan.tableSize) }

  /// Takes back the views of old cursors, or all views that are not current if obsolete files or memtables take too
  /// much.
  ///
  /// The next move of such a cursor gets the newest view.
  /// Called after each flush and each compaction, and when a writer waits for memtables that only readers keep.
  func takeBackViews() {
    guard cursors.count > 0 else { return }
    let plan = plan
    let memory = tree.budget.account(.memTables).used
    let isTooMuch =
      obsolete.pinnedBytes > pinnedBytesMaximum(compactions.measureDebt().tableBytes)
      || memory > plan.activeBytesMaximum + plan.frozenBytesMaximum
      || pipeline.memory.keptSize > plan.memtableSize
    if cursors.takeBack(age: isTooMuch ? 1 : Self.viewAgeMaximum) > 0 { epochs.poll() }
  }

  // MARK: - Without other activity

  /// The delay after which a timer checks whether the reads that retain replaced objects have ended.
  ///
  /// The last of these reads usually releases the objects when it ends (`ReadEpochs.leave`). Its check is a relaxed
  /// load, so it may miss that objects wait; the timer is for this case.
  private static let pollNanoseconds: UInt64 = 50_000_000
  /// The delay after which idle cursors give up the files of replaced tables.
  private static let reclaimNanoseconds: UInt64 = 2_000_000_000

  /// Polls after a delay for the end of reads that retain objects, until nothing is retained.
  func pollReadsLater() {
    let shouldSubmit = state.withLock { state in
      guard !state.isPollScheduled, !state.isClosing else { return false }
      state.isPollScheduled = true
      return true
    }
    guard shouldSubmit else { return }
    executor.submit("reads.poll", after: Self.pollNanoseconds) { [self] in
      state.withLock { $0.isPollScheduled = false }
      if epochs.poll() { pollReadsLater() }
    }
  }

  /// Takes the files of replaced tables back from cursors after a delay, until none is retained.
  func reclaimLater() {
    let shouldSubmit = state.withLock { state in
      guard !state.isReclaimScheduled, !state.isClosing else { return false }
      state.isReclaimScheduled = true
      return true
    }
    guard shouldSubmit else { return }
    executor.submit("files.reclaim", after: Self.reclaimNanoseconds) { [self] in
      state.withLock { $0.isReclaimScheduled = false }
      guard obsolete.pinnedBytes > 0 else { return }
      cursors.takeBack(age: 1)
      epochs.poll()
      if obsolete.pinnedBytes > 0 { reclaimLater() }
    }
  }
}
