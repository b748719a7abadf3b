internal import Synchronization

/// What keeps cursors from holding on to what the database has replaced.
extension BackgroundWork {
  /// After so many changes of its family's memtables or tables a cursor's view is taken back in any case: it
  /// holds memory, too.
  private static let viewAgeMaximum: UInt64 = 8

  /// The bytes of obsolete files that cursors may keep: a quarter of the database, but at least two tables.
  private func pinnedBytesMaximum(_ tableBytes: UInt64) -> UInt64 { max(tableBytes / 4, 2 * plan.tableSize) }

  /// Takes the views of old cursors back; all that are not in force where obsolete files, or memtables, come
  /// to too much. After each change of tables.
  func takeBackViews() {
    guard cursors.count > 0 else { return }
    let plan = plan
    let memory = tree.budget.account(.memTables).used
    let isTooMuch =
      obsolete.pinnedBytes > pinnedBytesMaximum(compactions.takeStock().tableBytes)
      || memory > plan.activeBytesMaximum + plan.frozenBytesMaximum
      || pipeline.memory.keptSize > plan.memtableSize
    if cursors.takeBack(age: isTooMuch ? 1 : Self.viewAgeMaximum) > 0 { epochs.poll() }
  }

  // MARK: - When nothing else happens

  /// After so long a look whether reads have ended that keep something. The last of them looks itself; this is for
  /// those whose end it missed.
  private static let pollNanoseconds: UInt64 = 50_000_000
  /// After so long the files of replaced tables are taken from cursors that stand still.
  private static let reclaimNanoseconds: UInt64 = 2_000_000_000

  /// Looks again in a while whether reads have ended that keep something, until nothing is kept.
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

  /// Takes the files of replaced tables back in a while, until none is kept.
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
