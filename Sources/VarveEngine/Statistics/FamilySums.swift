extension EngineStatistics {
  /// What statistics say of all families together. Each family is added and need not be kept, because there may be ten
  /// thousand.
  struct FamilySums {
    /// The tables by level.
    private(set) var levels = ByLevel<Level>.empty
    /// The maximum number of tables that a read of one key searches in one family.
    private(set) var searchedMaximum = 0
    /// The bytes on the last level of each family.
    private(set) var bottomBytes: UInt64 = 0

    mutating func add(_ family: Family) {
      let tables = family.levels
      for level in tables.indices { levels[level] += tables[level] }
      let searched = family.levelZeroDepth + tables.dropFirst().count(where: { $0.fileCount > 0 })
      searchedMaximum = max(searchedMaximum, searched)
      bottomBytes += tables.last { $0.fileCount > 0 }?.bytes ?? 0
    }
  }

  /// Returns the ids of the families with the most bytes, or `nil` if there are at most `countMaximum`.
  static func largest(_ families: [ColumnFamily], _ countMaximum: Int) -> Set<FamilyID>? {
    guard families.count > countMaximum else { return nil }
    let sizes = families.map { (size: $0.state.version.totalSize, id: $0.id) }
    return Set(sizes.sorted { ($0.size, $1.id) > ($1.size, $0.id) }.prefix(countMaximum).map(\.id))
  }
}
