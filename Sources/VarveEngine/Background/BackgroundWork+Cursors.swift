internal import Synchronization

/// Takes back memtables and tables that cursors retain although the database has replaced them.
extension BackgroundWork {
  /// The number of changes of its family's memtables or tables after which a cursor's view is replaced in any case,
  /// because the view retains memory as well.
  private static let viewAgeMaximum: UInt64 = 8

  /// Returns the bytes of obsolete files that cursors may keep: a quarter of the database, but at least two tables.
  private func pinnedBytesMaximum(_ tableBytes: UInt64) -> UInt64 { max(tableBytes / 4, 2 * plan.tableSize) }

  /// Replaces the views of old cursors, or all views that are not current if obsolete files or memtables take too much.
  ///
  /// Called after each change of tables.
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

  /// The delay after which to check whether reads that retain objects have ended.
  ///
  /// The last of them usually checks this itself; the timer is for reads whose end it missed.
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
