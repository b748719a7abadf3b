/// Handling of tables that a compaction can't read.
extension Engine {
  /// Reads every table, and returns the damage that `giveUp` can give up: at most one block of each table. Tables that
  /// are damaged stay out of compactions from then on.
  ///
  /// Throws errors that prevent files from being read, and `.closed`. Complexity: one read of all tables.
  public func findDamage() throws(EngineError) -> [DamagedBlock] {
    try core.requireOpen()
    return try core.background.compactions.findDamage()
  }

  /// Gives up the unreadable blocks of a damaged table: the table is rewritten without them, and takes part in
  /// compactions again. The engine never does this by itself.
  ///
  /// `damage` comes from `EngineStatistics.damagedBlocks` or from an event. All unreadable blocks of its table are
  /// given up together. The result contains the file and byte ranges, the first and the last key that may have been
  /// there, the number of lost entries, and whether tombstones were among them.
  ///
  /// - Important: Lost entries no longer hide what they replaced. **Older versions of keys there may be visible
  ///   again**, and deleted keys may reappear, with or without a tombstone among the lost entries.
  ///
  /// Reads and writes continue meanwhile. Open snapshots and cursors keep what they see of the readable entries; a
  /// cursor that retains the old file still encounters the damage. When the call returns, the new table is durable.
  ///
  /// Throws `.notFound` if the table is no longer in the database, `.readOnly` for a read-only engine, and errors of
  /// writing the new table; nothing is changed then. Complexity: one read and one write of the table.
  @discardableResult
  public func giveUp(_ damage: DamagedBlock) throws(EngineError) -> GivenUpDamage {
    try core.requireOpen()
    try core.requireWritable()
    let family = try family(named: damage.family)
    return try core.background.compactions.giveUp(FileNumber(damage.table), of: core.state(of: family))
  }
}
