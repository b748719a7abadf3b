/// Finds a level for each table of a family whose MANIFEST is lost or damaged.
///
/// Reads take the first entry of a key that they find from level 0 downwards, so of two tables that have a key
/// the one with the newer entry must lie above.
///
/// 1. Where the MANIFEST's last readable state knows all of them, they go where it had them.
/// 2. Otherwise, where no two overlap, all go to the last level.
/// 3. Otherwise, where of any two that overlap one is older in every entry, all go to level 0, which orders
///    them by their sequences.
/// 4. Otherwise they can't be assigned to levels without looking at each key: they have to be merged.
enum RepairPlacement {
  struct Table {
    var metadata: TableMetadata
    /// Where the MANIFEST had it; nil where it doesn't know the table.
    var level: Int?
    /// Whether the repair wrote it.
    var isNew: Bool
  }

  /// The tables with their levels; nil where they have to be merged. Levels are trusted where they are all
  /// of one state.
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
