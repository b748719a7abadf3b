/// A table in which a compaction found damage.
///
/// A value that does not retain the table: the files of replaced tables are removed although their damage is
/// remembered.
struct SuspectTable: Sendable {
  let number: FileNumber
  let family: FamilyID
  /// The level of the table. It does not change while the table is a suspect.
  let level: Int
  /// The keys that the table covers.
  let range: UserKeyRange
  /// The error of the last attempt to read the table, with the file and the offset of the block.
  var error: EngineError

  init(_ table: TableMetadata, family: FamilyID, level: Int, error: EngineError) {
    number = table.number
    self.family = family
    self.level = level
    range = UserKeyRange(table)
    self.error = error
  }
}

/// The tables in which compactions found damage, by family: no compaction reads them until `resume` has read them
/// again.
///
/// They are remembered in memory only: after a reopen the first compaction that needs one finds the damage again.
///
/// # Invariants
/// 1. No compaction reads a suspect table, except the rewrite that gives its damage up. A compaction that drops covered
///    tables unread (`CoveredTables`) may have one as an input.
struct SuspectTables: Sendable {
  private var families: [FamilyID: [SuspectTable]] = [:]

  var isEmpty: Bool { families.isEmpty }
  var count: Int { families.values.reduce(0) { $0 + $1.count } }

  /// The suspect tables of a family, in the order in which they were found.
  func of(_ family: FamilyID) -> [SuspectTable] { families.isEmpty ? [] : families[family] ?? [] }

  /// All suspect tables, ordered by the number of the table.
  var all: [SuspectTable] { families.values.flatMap { $0 }.sorted { $0.number < $1.number } }

  /// Adds a table, or updates its error.
  mutating func note(_ suspect: SuspectTable) {
    if let index = families[suspect.family]?.firstIndex(where: { $0.number == suspect.number }) {
      families[suspect.family]?[index] = suspect
    } else {
      families[suspect.family, default: []].append(suspect)
    }
  }

  /// Removes a table.
  mutating func forget(_ number: FileNumber, of family: FamilyID) {
    families[family]?.removeAll { $0.number == number }
    if families[family]?.isEmpty ?? false { families[family] = nil }
  }

  /// Removes the tables of a family.
  mutating func forget(_ family: FamilyID) { families[family] = nil }

  /// Removes the suspects of a family that its version no longer has.
  mutating func forgetGone(_ family: FamilyID, _ version: Version) {
    for suspect in of(family) {
      let isThere = version.tables(level: suspect.level).contains { $0.number == suspect.number }
      if !isThere { forget(suspect.number, of: family) }
    }
  }
}

/// The tables of a version that can't go down because of suspects: the suspects themselves, on each level the tables
/// that overlap a suspect of the next level, and on level 0 the tables that a suspect keeps there.
///
/// # Rule
/// 1. A table of a level from 1 on moves down with all that it overlaps on the next level. If one of those is a
///    suspect, it stays, and tables from above are merged with it on its level.
/// 2. A table of level 0 moves to the base level with all older tables of level 0 that it overlaps. The base level is
///    kept above every suspect (`LeveledCompactionPicker.targets`), so only a suspect of level 0, or one of level 1,
///    which has no level above it, keeps the table.
///
/// Complexity: O(1) without suspects; otherwise linear in the tables of the levels concerned.
struct StuckTables: Sendable {
  private var numbers: Set<FileNumber> = []
  /// A Boolean value that indicates whether some of the stuck tables are on level 0 and are not suspects.
  private(set) var holdsLevelZero = false

  init(_ version: Version, _ suspects: [SuspectTable]) {
    if suspects.isEmpty { return }
    numbers = Set(suspects.map(\.number))
    for suspect in suspects where suspect.level > 1 {
      for table in version.overlap(level: suspect.level - 1, suspect.range) { numbers.insert(table.number) }
    }
    addLevelZero(version.levelZero.tables, suspects)
  }

  private mutating func addLevelZero(_ newestFirst: [TableMetadata], _ suspects: [SuspectTable]) {
    guard suspects.contains(where: { $0.level <= 1 }) else { return }
    var blocked = suspects.filter { $0.level == 1 }.map(\.range)
    for table in newestFirst.reversed() {
      let isSuspect = numbers.contains(table.number)
      guard isSuspect || blocked.contains(where: { $0.overlaps(table) }) else { continue }
      // Newer tables that overlap this one can't move below it.
      var hull = UserKeyRange(table)
      blocked.removeAll { range in
        guard range.overlaps(hull) else { return false }
        hull.extend(by: range)
        return true
      }
      blocked.append(hull)
      if !isSuspect {
        numbers.insert(table.number)
        holdsLevelZero = true
      }
    }
  }

  var isEmpty: Bool { numbers.isEmpty }

  func contains(_ table: TableMetadata) -> Bool { !numbers.isEmpty && numbers.contains(table.number) }

  /// The total bytes of the stuck tables among `tables`.
  func size(of tables: [TableMetadata]) -> UInt64 {
    numbers.isEmpty ? 0 : tables.reduce(0) { $0 + (contains($1) ? $1.fileSize : 0) }
  }
}
