/// Builds the next Version of a family from a base, deletions and additions, and checks them.
///
/// # Checked invariants (`.corruption`: the edits contradict each other or the base)
/// 1. A deleted table exists. `ManifestState`, which has the index for it, checks that the number of an added table
///    is not used elsewhere.
/// 2. On levels from 1 on, an added table overlaps no neighbor.
/// 3. On level 0, an added table is disjoint in sequence from tables that it overlaps.
///
/// The cost of an edit depends on what it changes: see `SortedRun.applying` and `LevelZero.applying`.
struct VersionBuilder {
  private let base: Version
  private var deleted: [[TableMetadata]]
  private var deletedNumbers: Set<FileNumber> = []
  private var added: [[TableMetadata]]
  private var addedNumbers: Set<FileNumber> = []

  init(_ base: Version) {
    self.base = base
    deleted = Array(repeating: [], count: Limits.levelCount)
    added = Array(repeating: [], count: Limits.levelCount)
  }

  /// Deletes a table. `table` is the table with this number, if the caller knows it; otherwise the level is searched.
  mutating func delete(_ number: FileNumber, level: Int, known table: TableMetadata? = nil) throws(EngineError) {
    try Self.check(level)
    guard deletedNumbers.insert(number).inserted else {
      throw .corruption("table \(number) is deleted from level \(level) twice")
    }
    guard let table = table ?? base.tables(level: level).first(where: { $0.number == number }) else {
      throw .corruption("table \(number) is deleted from level \(level), where it is not")
    }
    deleted[level].append(table)
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

  /// Returns the next Version.
  func build() throws(EngineError) -> Version {
    let levelZero =
      isChanged(0) ? try base.levelZero.applying(deleted: deleted[0], added: added[0]) : base.levelZero
    var runs: [SortedRun] = []
    for level in 1..<Limits.levelCount {
      let run = base.run(level)
      runs.append(
        isChanged(level) ? try run.applying(deleted: deleted[level], added: added[level], level: level) : run)
    }
    let version = Version(levelZero: levelZero, runs: runs)
    return version.isEmpty ? .empty : version
  }

  private func isChanged(_ level: Int) -> Bool { !deleted[level].isEmpty || !added[level].isEmpty }
}
