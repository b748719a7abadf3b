/// Finds a level for each table of a family whose MANIFEST is lost or damaged.
///
/// Reads use the first entry of a key that they find from level 0 downwards, so of two tables that have a key the one
/// with the newer entry must be on the level above.
///
/// 1. If the MANIFEST's last readable state has all of the tables, they keep their levels in it.
/// 2. Otherwise, if no two overlap, all are assigned to the last level.
/// 3. Otherwise, if of any two that overlap one is older in every entry, all are assigned to level 0, which orders them
///    by their sequences.
/// 4. Otherwise, they can't be assigned to levels without comparing each key, so they have to be merged.
enum RepairPlacement {
  struct Table {
    var metadata: TableMetadata
    /// The level in the MANIFEST, or `nil` if it doesn't have the table.
    var level: Int?
    /// A Boolean value that indicates whether the repair wrote the table.
    var isNew: Bool
  }

  /// Returns the tables with their levels, or `nil` if they have to be merged.
  ///
  /// With `trustsLevels`, the levels are those of a single state and are kept if possible.
  static func assignLevels(_ tables: [Table], trustsLevels: Bool) -> [Table]? {
    if trustsLevels, tables.allSatisfy({ $0.level != nil }), isVersion(tables) { return tables }
    let last = atLevel(Limits.levelCount - 1, tables)
    if isVersion(last) { return last }
    let top = atLevel(0, tables)
    return isVersion(top) ? top : nil
  }

  private static func atLevel(_ level: Int, _ tables: [Table]) -> [Table] {
    tables.map { Table(metadata: $0.metadata, level: level, isNew: $0.isNew) }
  }

  private static func isVersion(_ tables: [Table]) -> Bool {
    var builder = VersionBuilder(.empty)
    do throws(EngineError) {
      for table in tables { try builder.add(table.metadata, level: table.level ?? 0) }
      _ = try builder.build()
      return true
    } catch { return false }
  }
}
