/// What to do with a table that a compaction can't read.
extension Engine {
  /// Reads every table, and returns the damage that `giveUp` can give up: at most one block of each table. Tables that are
  /// damaged stay out of compactions from then on.
  ///
  /// Throws errors that keep files from being read, and `.closed`. Complexity: one read of all tables.
  public func findDamage() throws(EngineError) -> [DamagedBlock] {
    try core.requireOpen()
    return try core.background.compactions.findDamage()
  }

  /// Gives up a damaged table's blocks that can't be read: the table is rewritten without them, and takes part in
  /// compactions again. The engine never does this by itself.
  ///
  /// `damage` is one of `EngineStatistics.damagedBlocks`, or of an event. All blocks of its table that can't be read are
  /// given up together. The result says which file and bytes, the first and the last key that may have been there, how
  /// many entries are lost, and whether tombstones were among them.
  ///
  /// - Important: What is lost no longer hides what it replaced. **Older versions of keys there may show again**, and
  ///   keys that were deleted may be back, with or without a tombstone among the lost entries.
  ///
  /// Reads and writes go on meanwhile. Open snapshots and cursors keep what they see of the readable entries; a cursor
  /// that holds the old file still meets the damage. When the call returns, the new table is durable.
  ///
  /// Throws `.notFound` where the table is no longer in the database, `.readOnly` for a read-only engine, and what
  /// writing the new table meets; nothing is changed then. Complexity: one read of the table and one write.
  @discardableResult
  public func giveUp(_ damage: DamagedBlock) throws(EngineError) -> GivenUpDamage {
    try core.requireOpen()
    try core.requireWritable()
    let family = try family(named: damage.family)
    return try core.background.compactions.giveUp(FileNumber(damage.table), of: core.state(of: family))
  }
}
