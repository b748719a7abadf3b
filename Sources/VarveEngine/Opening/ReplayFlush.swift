/// Flushes memtables that replay has frozen, so that a log that exceeds the memory budget can be opened.
///
/// # Crashes
/// The tables are synced one by one and named by the first edit of the opened engine, together with the flushed
/// sequences. Until then they are orphans: the next open removes them and replays the same log.
///
/// # A full disk
/// Without space, nothing is flushed: memory exceeds the budget, as in an engine that only reads, and
/// `EngineStatistics.Memory.excess` and `Engine.explain` say so.
///
/// # Memtables that are not flushed
/// Records of kind *entries* contain copies of entries that were logged before, or entries that are older than those
/// that were replayed before them. Such an entry is searched for in the memtables, and inserted among them in the order
/// of the sequences. So the memtables of a family stay as they are until its last copy was replayed. The rest of the
/// log is read for copies once, when the first flush is due.
///
/// # Concurrency
/// Used by the thread that opens.
final class ReplayFlush {
  private let maker: Maker
  private let registry: FamilyRegistry
  private let memory: MemTableManager
  /// Calls its argument with the number of each record of copies and its families.
  private let findCopies: ((Int, [FamilyID]) -> Void) throws(EngineError) -> Void
  /// The tables of each flush.
  private var tables: [FlushedTables] = []
  private var flushed: [FamilyID: SequenceNumber] = [:]
  /// The number of the last record with copies of a family, or `nil` if the log was not searched for them yet.
  private var lastCopies: [FamilyID: Int]?
  private var hasSpace: Bool

  /// The environment in which tables are written before there is an engine.
  struct Maker: TableMaker {
    let tree: Tree
    let options: EngineOptions
    let plan: MemoryPlan
    let executor: any BackgroundExecutor
    let metrics: EngineMetrics
    let picker: LeveledCompactionPicker
    /// A Boolean value that indicates whether there is space for tables.
    let hasSpace: Bool
  }

  init(
    _ maker: Maker, _ registry: FamilyRegistry, _ memory: MemTableManager,
    findCopies: @escaping ((Int, [FamilyID]) -> Void) throws(EngineError) -> Void
  ) {
    self.maker = maker
    self.registry = registry
    self.memory = memory
    self.findCopies = findCopies
    hasSpace = maker.hasSpace
  }

  /// The tables and flushed sequences that the first edit must include.
  var edit: VersionEdit {
    var edit = VersionEdit()
    for tables in tables { edit.addedTables += tables.edit.addedTables }
    for (family, sequence) in flushed.sorted(by: { $0.key < $1.key }) { edit.setFlushed(sequence, family: family) }
    return edit
  }

  /// Flushes frozen memtables if they exceed their bound. `record` is the number of the record that is being replayed.
  func flushIfDue(at record: Int) throws(EngineError) {
    guard hasSpace, memory.frozenSize > maker.plan.frozenBytesMaximum else { return }
    let lastCopies = try copies()
    for family in registry.all {
      guard lastCopies[family.id].map({ $0 < record }) ?? true else { continue }
      try flush(family)
      if !hasSpace { return }
    }
  }

  private func copies() throws(EngineError) -> [FamilyID: Int] {
    if let lastCopies { return lastCopies }
    var found: [FamilyID: Int] = [:]
    try findCopies { record, families in
      for family in families { found[family] = record }
    }
    lastCopies = found
    return found
  }

  private func flush(_ family: ColumnFamily) throws(EngineError) {
    let input = FlushJob.Input(family: family, frozen: family.state.frozen)
    guard !input.frozen.isEmpty else { return }
    let written = FlushedTables(maker)
    do throws(EngineError) {
      // No snapshot is older than the engine.
      try FlushJob.build(input, snapshots: [input.newestSequence], maker, written)
      try written.sync()
    } catch {
      written.discard()
      guard error.code == .noSpace else { throw error }
      hasSpace = false
      return
    }
    tables.append(written)
    flushed[family.id] = input.newestSequence
    family.state.install(family.state.version, flushed: input.frozen.count)
    memory.didFlush(input.frozen)
  }

  /// Makes the names of the tables durable, as the edit that names them requires.
  func finish() throws(EngineError) {
    guard !tables.isEmpty else { return }
    try maker.tree.environment.fileSystem.syncDirectory(maker.tree.directory)
  }

  /// Removes the files, because the database is not opened.
  func discard() { for tables in tables { tables.discard() } }
}
