/// Writes frozen memtables to tables of level 0.
///
/// # Steps
/// 1. Merge the frozen memtables of a family, keeping one version of a key for each snapshot interval (the visible
///    sequence at the start counts as a snapshot), and write the tables; sync them in groups (`FlushedTables`), and
///    then their directory.
/// 2. Sync the log as far as the edit requires:
///    - If other families have entries that are only in the log, sync everything appended so far. A power loss could
///      otherwise leave the half of a batch that is in the new tables, without the half that is only in the log.
///    - Otherwise, if the job frees segments, sync the segments before the one that becomes the oldest, so that the
///      durable part of the log remains a prefix, and the header of that segment, because recovery begins there. The
///      whole segment is synced if writers have left it for a later one.
///    - Otherwise, sync nothing.
///
///    If the sync fails, the log continues in other segments, and the oldest needed segment is determined again.
/// 3. Make the edit durable. It adds the tables, raises the flushed sequences of their families, and names the oldest
///    segment of the log that is still needed. If that is a later one than before, the edit's last sequence is at least
///    that of the last commit before the last entries that were logged again (`CommitPipeline+LogBound`).
/// 4. Install the version, release the memtables and the freed segments.
///
/// Without inputs only segments are freed. If all families are volatile, step 2 is skipped unless segments are freed,
/// and step 3 writes nothing (`Manifest.append`).
///
/// A failure before step 3 removes the files; after one in step 3, `Tree.commit` decides.
///
/// # Crashes
/// Until the edit of step 3 is durable, the tables are orphans, and no segment of the log was freed: the next open
/// replays the log and removes the tables. Of the replayed entries it flushes those in memtables that are frozen; the
/// others stay in active memtables. Afterwards the tables count: replay begins with the oldest segment that the edit
/// names, and skips entries up to the flushed sequence of their family.
struct FlushJob {
  let inputs: [Input]
  let background: BackgroundWork

  /// One family's frozen memtables, oldest first.
  struct Input {
    let family: ColumnFamily
    let frozen: [FrozenMemTable]
  }

  /// The limits of one job, in which several small memtables share the syncs and the edit.
  struct Limits {
    var bytes: Int
    var families: Int
    /// The number of memtables of a family, unless they have unlogged batches.
    var memTables = Int.max
    /// Whether families with deletes come first, whatever the age of their memtables.
    var prefersDeletes = false

    /// The limits after a failure: the remaining space should be used for at least one memtable.
    static let one = Limits(bytes: 0, families: 1, memTables: 1)
    /// The limits after deletes on a full disk: all memtables of a family with deletes, because what these cover is not
    /// written.
    static let deletes = Limits(bytes: 0, families: 1, prefersDeletes: true)
  }

  /// Returns the family with the oldest frozen memtable, and the following ones within the limits.
  ///
  /// If one of them has unlogged batches, every family with unlogged batches is included: such batches may span
  /// families and must be flushed as a whole.
  static func nextInputs(_ registry: FamilyRegistry, _ limits: Limits) -> [Input] {
    var waiting: [Input] = []
    let isOver = limits.prefersDeletes && !registry.all.contains { $0.state.frozen.contains { $0.table.hasDeletes } }
    let limits = isOver ? .one : limits
    for family in registry.all {
      let frozen = family.state.frozen
      if frozen.isEmpty { continue }
      let hasUnlogged = frozen.contains(where: \.hasUnlogged)
      waiting.append(
        Input(family: family, frozen: hasUnlogged ? frozen : Array(frozen.prefix(limits.memTables))))
    }
    guard waiting.count > 1 else { return waiting }
    waiting.sort { left, right in
      if limits.prefersDeletes, left.hasDeletes != right.hasDeletes { return left.hasDeletes }
      return left.oldestSequence < right.oldestSequence
    }
    var bytes = 0
    let count =
      waiting.firstIndex { input in
        bytes += input.frozen.reduce(0) { $0 + $1.table.usedBytes }
        return bytes > limits.bytes
      } ?? waiting.count
    let taken = min(max(count, 1), limits.families)
    guard waiting[..<taken].contains(where: \.hasUnlogged) else { return Array(waiting[..<taken]) }
    return Array(waiting[..<taken]) + waiting[taken...].filter(\.hasUnlogged)
  }

  /// Runs the job, and returns the tables for the event, if there is a listener.
  func run() throws(EngineError) -> [EngineEvent.Table] {
    let tables = FlushedTables(background)
    var edit: VersionEdit
    var flushed: [FamilyID: Int] = [:]
    let need: LogNeed
    do throws(EngineError) {
      for input in inputs { try build(input, tables) }
      try tables.sync()
      if !tables.files.isEmpty { try background.tree.requireEditSpace() }
      edit = tables.edit
      for input in inputs {
        // Recovery finds no entry of a volatile family, and must not regard its sequences as durable.
        if !input.family.state.isVolatile { edit.setFlushed(input.newestSequence, family: input.family.id) }
        flushed[input.family.id] = input.frozen.count
      }
      try background.tree.environment.fileSystem.syncDirectory(background.tree.directory)
      need = try makeLogDurable()
      if need.oldest > background.tree.state.oldestLog {
        edit.oldestLog = need.oldest
        edit.lastSequence = need.copiedThrough
      }
      // The job only released segments, and found none to free in the MANIFEST. A reader may have kept some before.
      if inputs.isEmpty && edit.oldestLog == nil {
        background.pipeline.log.release(before: background.tree.state.oldestLog)
        return []
      }
    } catch {
      tables.discard()
      throw error
    }
    try install(edit, flushed, need.oldest)
    return background.metrics.events.isListening ? edit.addedTables.map { .init($0.table, level: 0) } : []
  }

  /// The part of the log that is needed after the edit.
  private struct LogNeed {
    let oldest: FileNumber
    /// Reading from `oldest` past this commit finds every entry that was logged again.
    let copiedThrough: SequenceNumber
  }

  /// Makes the log durable as far as the edit requires, and returns the part that is needed afterwards.
  ///
  /// If the edit names its oldest segment, the header of that must survive a power loss, and so must the copies that
  /// the edit relies on.
  private func makeLogDurable() throws(EngineError) -> LogNeed {
    let counts = Dictionary(uniqueKeysWithValues: inputs.map { ($0.family.id, $0.frozen.count) })
    let pipeline = background.pipeline
    while true {
      let generation = pipeline.log.generation
      let oldest = oldestNeededSegment(counts)
      let need = LogNeed(oldest: oldest, copiedThrough: pipeline.copiedThrough)
      let frees = oldest > background.tree.state.oldestLog
      if isVolatile, !frees { return need }
      if leavesEntries(counts) || (frees && need.copiedThrough > pipeline.log.durableSequence) {
        try pipeline.sync(.position(pipeline.log.appendedPosition), for: .background)
      } else if frees {
        try pipeline.sync(.segment(oldest), for: .background)
      } else {
        return need
      }
      // After a restart of the log the segment may be dead.
      if pipeline.log.generation == generation, generation & 1 == 0 { return need }
    }
  }

  /// A Boolean value that indicates whether no table of this flush counts after a crash.
  private var isVolatile: Bool { !inputs.isEmpty && inputs.allSatisfy(\.family.state.isVolatile) }

  /// Returns whether the rest of a batch that is flushed now may be only in the log.
  ///
  /// If a single family has entries left, they are newer than those flushed.
  private func leavesEntries(_ counts: [FamilyID: Int]) -> Bool {
    background.registry.all.contains { family in
      guard let count = counts[family.id] else { return family.state.oldestSegment != nil }
      return counts.count > 1 && family.state.oldestSegment(skippingFrozen: count) != nil
    }
  }

  private func install(
    _ edit: VersionEdit, _ flushed: [FamilyID: Int], _ oldest: FileNumber
  ) throws(EngineError) {
    let dropped = try background.tree.commit(edit, flushed: flushed)
    // The caller that dropped a family has released its memtables.
    for input in inputs where !dropped.contains(input.family.id) {
      background.pipeline.memory.didFlush(input.frozen)
    }
    background.pipeline.log.release(before: oldest)
  }

  /// Returns the oldest segment with an entry that will not be in a table after this job.
  ///
  /// The current segment is loaded first: if a family gets its first entry meanwhile, that entry is there or in a later
  /// one.
  private func oldestNeededSegment(_ counts: [FamilyID: Int]) -> FileNumber {
    var oldest = background.pipeline.log.currentNumber
    for family in background.registry.all {
      let segment = family.state.oldestSegment(skippingFrozen: counts[family.id] ?? 0)
      if let segment, segment < oldest { oldest = segment }
    }
    return oldest
  }

  // MARK: - Tables

  private func build(_ input: Input, _ tables: FlushedTables) throws(EngineError) {
    let snapshots = background.snapshots.sequences { background.pipeline.visible }
    try Self.build(input, snapshots: snapshots, background, tables)
  }

  /// Writes the tables of one family. `snapshots` are the live ones and the visible sequence, ascending.
  static func build(
    _ input: Input, snapshots: [SequenceNumber], _ maker: any TableMaker, _ tables: FlushedTables
  ) throws(EngineError) {
    let tombstones = CompactionTombstones(input.frozen.map(\.table), snapshots: snapshots)
    var output = FlushOutput(input, maker, tombstones, into: tables)
    do throws(EngineError) {
      try unsafe FlushMerge.run(
        input.frozen.map(\.table), snapshots: snapshots, tombstones: tombstones, merge: input.family.state.merge
      ) { (key) throws(EngineError) in
        unsafe try output.builder(for: key)
      }
      try output.finish()
    } catch {
      output.discard()
      throw error
    }
  }
}

extension FlushJob.Input {
  var hasUnlogged: Bool { frozen.contains(where: \.hasUnlogged) }
  var hasDeletes: Bool { frozen.contains { $0.table.hasDeletes } }
  var oldestSequence: SequenceNumber { frozen.first?.table.smallestSequence ?? .maximum }
  var newestSequence: SequenceNumber { frozen.last?.table.largestSequence ?? .zero }
}
