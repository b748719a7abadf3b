/// Makes the next Version of a family: a base, deletions and additions, checked.
///
/// # Invariants it checks (`.corruption`: the edits contradict each other or the base)
/// 1. What is deleted is there; what is added is not there already.
/// 2. On levels from 1 on, an added table overlaps no neighbour.
/// 3. On level 0, an added table and one that overlaps it are apart in sequence.
///
/// An edit costs one pass over the pointers of each level that it changes; keys are compared around
/// the added tables only.
struct VersionBuilder {
  private let base: Version
  private var deleted: [Set<FileNumber>]
  private var added: [[TableMetadata]]
  private var addedNumbers: Set<FileNumber> = []

  init(_ base: Version) {
    self.base = base
    deleted = Array(repeating: [], count: Limits.levelCount)
    added = Array(repeating: [], count: Limits.levelCount)
  }

  mutating func delete(_ number: FileNumber, level: Int) throws(EngineError) {
    try Self.check(level)
    guard deleted[level].insert(number).inserted else {
      throw .corruption("table \(number) is deleted from level \(level) twice")
    }
  }

  mutating func add(_ table: TableMetadata, level: Int) throws(EngineError) {
    try Self.check(level)
    guard addedNumbers.insert(table.number).inserted else {
      throw .corruption("table \(table.number) is added twice")
    }
    added[level].append(table)
  }

  private static func check(_ level: Int) throws(EngineError) {
    guard level >= 0 && level < Limits.levelCount else { throw .corruption("there is no level \(level)") }
  }

  /// The next Version.
  func build() throws(EngineError) -> Version {
    let levelZero = isChanged(0) ? LevelZero(try buildLevelZero()) : base.levelZero
    var runs: [SortedRun] = []
    for level in 1..<Limits.levelCount {
      runs.append(isChanged(level) ? SortedRun(try buildRun(level)) : base.run(level))
    }
    let version = Version(levelZero: levelZero, runs: runs)
    return version.isEmpty ? .empty : version
  }

  private func isChanged(_ level: Int) -> Bool { !deleted[level].isEmpty || !added[level].isEmpty }

  /// The level's tables without the deleted ones.
  private func remaining(_ level: Int) throws(EngineError) -> [TableMetadata] {
    let tables = base.tables(level: level)
    var missing = deleted[level].count
    var result: [TableMetadata] = []
    result.reserveCapacity(tables.count + added[level].count)
    for table in tables {
      if missing > 0, deleted[level].contains(table.number) {
        missing -= 1
      } else if !added[level].isEmpty, addedNumbers.contains(table.number) {
        throw .corruption("table \(table.number) is added to level \(level), where it is already")
      } else {
        result.append(table)
      }
    }
    guard missing == 0 else {
      let present = Set(tables.map(\.number))
      let absent = deleted[level].filter { !present.contains($0) }.min() ?? FileNumber(0)
      throw .corruption("table \(absent) is deleted from level \(level), where it is not")
    }
    return result
  }

  private func buildLevelZero() throws(EngineError) -> [TableMetadata] {
    var tables = try remaining(0)
    for table in added[0] {
      for other in tables where table.overlaps(other) && !table.isOlder(than: other) && !other.isOlder(than: table) {
        throw .corruption("tables \(table.number) and \(other.number) of level 0 overlap in keys and in sequence")
      }
      tables.append(table)
    }
    tables.sort(by: TableMetadata.isNewerFirst)
    return tables
  }

  private func buildRun(_ level: Int) throws(EngineError) -> [TableMetadata] {
    let old = try remaining(level)
    let new = added[level].sorted(by: TableMetadata.isSmallerFirst)
    var tables: [TableMetadata] = []
    tables.reserveCapacity(old.count + new.count)
    var oldIndex = 0
    for table in new {
      while oldIndex < old.count, TableMetadata.isSmallerFirst(old[oldIndex], table) {
        tables.append(old[oldIndex])
        oldIndex += 1
      }
      if let previous = tables.last { try Self.check(previous, endsBefore: table, level) }
      tables.append(table)
      if oldIndex < old.count { try Self.check(table, endsBefore: old[oldIndex], level) }
    }
    tables.append(contentsOf: old[oldIndex...])
    return tables
  }

  private static func check(
    _ left: TableMetadata, endsBefore right: TableMetadata, _ level: Int
  ) throws(EngineError) {
    guard left.endsBefore(right) else {
      throw .corruption("tables \(left.number) and \(right.number) of level \(level) overlap")
    }
  }
}
