/// The running compactions, with the facts about them that the next pick needs.
///
/// It is a value, so that picking stays a pure function.
///
/// # Invariants
/// 1. A table is an input of at most one compaction.
/// 2. The ranges of two compactions of one family with the same output level don't overlap.
struct CompactionsInProgress: Sendable {
  /// Identifies one compaction until it is finished.
  struct Ticket: Hashable, Sendable {
    fileprivate let value: UInt64
  }

  private struct Job: Sendable {
    let family: FamilyID
    let outputLevel: Int
    let range: UserKeyRange
    let tables: [FileNumber]
    /// The sum of `TableMetadata.compensatedSize` over the inputs of each level.
    let sizes: [Int: UInt64]
  }

  /// The output level of compactions that write nothing.
  private static let noLevel = -1

  private var jobs: [Ticket: Job] = [:]
  private var tables: Set<FileNumber> = []
  private var nextTicket: UInt64 = 0

  var count: Int { jobs.count }

  /// Registers a compaction that begins. It must have been picked with this value of `CompactionsInProgress`.
  mutating func begin(_ compaction: Compaction) -> Ticket {
    let job = Job(
      family: compaction.family, outputLevel: compaction.dropsInputs ? Self.noLevel : compaction.outputLevel,
      range: compaction.range, tables: compaction.inputTables.map(\.number),
      sizes: Dictionary(
        compaction.inputs.map { ($0.level, $0.tables.reduce(0) { $0 + $1.compensatedSize }) }, uniquingKeysWith: +))
    precondition(
      job.outputLevel == Self.noLevel
        || !hasOutputs(of: job.family, level: job.outputLevel, overlapping: job.range),
      "begin only a compaction that was picked with this value: another one writes to its range")
    for number in job.tables {
      precondition(tables.insert(number).inserted, "begin only a compaction whose tables are idle")
    }
    let ticket = Ticket(value: nextTicket)
    nextTicket += 1
    jobs[ticket] = job
    return ticket
  }

  /// Removes a compaction that was installed or given up.
  mutating func finish(_ ticket: Ticket) {
    guard let job = jobs.removeValue(forKey: ticket) else { return }
    tables.subtract(job.tables)
  }

  func isBusy(_ table: TableMetadata) -> Bool { !tables.isEmpty && tables.contains(table.number) }

  /// The sum of `TableMetadata.compensatedSize` over the tables of a level that are being compacted.
  func compensatedSize(of family: FamilyID, level: Int) -> UInt64 {
    jobs.values.reduce(0) { $0 + ($1.family == family ? $1.sizes[level] ?? 0 : 0) }
  }

  /// Returns whether a running compaction may write tables into a range of a level.
  func hasOutputs(of family: FamilyID, level: Int, overlapping range: UserKeyRange) -> Bool {
    jobs.values.contains { $0.family == family && $0.outputLevel == level && $0.range.overlaps(range) }
  }

  /// The shallowest level below 0 that a running compaction writes to.
  func shallowestOutputLevel(of family: FamilyID) -> Int? {
    jobs.values.filter { $0.family == family && $0.outputLevel > 0 }.map(\.outputLevel).min()
  }
}
