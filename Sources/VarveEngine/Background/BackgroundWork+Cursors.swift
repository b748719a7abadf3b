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
    if cursors.takeBack(age: isTooMuch ? 1 : Self.viewAgeMaximum) > 0 { epochs.poll() }
  }
}
