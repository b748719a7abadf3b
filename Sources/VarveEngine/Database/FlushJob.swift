/// Turns frozen memtables into tables of level 0.
///
/// # Steps
/// 1. Merge the frozen memtables of a family, keeping one version of a key for each snapshot interval
///    (the visible sequence at the start counts as a snapshot), and write and sync the tables.
/// 2. Sync the log up to the tables' highest sequence, where other families have entries that are only
///    there: else a loss of power could leave half of a batch. And where segments are freed: the one that
///    becomes the oldest must not be without a header then.
///    Where that sync fails, the log goes on in other segments, and the look for the oldest is repeated.
/// 3. Make the edit durable: tables in, flushed sequence up, oldest segment up.
/// 4. Put the version in force, give the memtables and the freed segments back.
///
/// Without inputs only segments are freed.
///
/// A failure before 3 removes the files; with one in 3 that is `Tree.commit`'s to decide.
struct FlushJob {
  let inputs: [Input]
  let background: BackgroundWork

  /// One family's frozen memtables, oldest first.
  struct Input {
    let family: ColumnFamily
    let frozen: [FrozenMemTable]
  }

  /// The family whose frozen memtable is the oldest; with it, where that holds unlogged batches, every
  /// family that does: such batches may be in several families and are to be flushed whole.
  static func nextInputs(_ registry: FamilyRegistry) -> [Input] {
    let waiting = registry.all.map { Input(family: $0, frozen: $0.state.frozen) }.filter { !$0.frozen.isEmpty }
    guard let first = waiting.min(by: { $0.oldestSequence < $1.oldestSequence }) else { return [] }
    guard first.frozen.contains(where: \.hasUnlogged) else { return [first] }
    return waiting.filter { $0.frozen.contains(where: \.hasUnlogged) }
  }

  func run() throws(EngineError) {
    var edit = VersionEdit()
    var flushed: [FamilyID: Int] = [:]
    var written: [FileNumber] = []
    let oldest: FileNumber
    do throws(EngineError) {
      for input in inputs {
        let tables = try build(input, &written)
        for table in tables { edit.addTable(table, family: input.family.id, level: 0) }
        edit.setFlushed(input.newestSequence, family: input.family.id)
        flushed[input.family.id] = input.frozen.count
      }
      try background.tree.environment.fileSystem.syncDirectory(background.tree.directory)
      oldest = try makeLogDurable()
      if oldest > background.tree.state.oldestLog { edit.oldestLog = oldest }
      // A release that found nothing to free.
      if inputs.isEmpty && edit.oldestLog == nil { return }
    } catch {
      background.tree.removeTables(written)
      throw error
    }
    try install(edit, flushed, oldest)
  }

  /// Makes the log durable as far as the edit needs it, and returns the oldest segment that is needed
  /// afterwards. Where the edit names that, its header must be there after a loss of power.
  private func makeLogDurable() throws(EngineError) -> FileNumber {
    let ids = Set(inputs.map(\.family.id))
    let pipeline = background.pipeline
    while true {
      let generation = pipeline.log.generation
      let oldest = oldestNeededSegment()
      let others = background.registry.all.contains { !ids.contains($0.id) && $0.state.oldestSegment != nil }
      guard others || oldest > background.tree.state.oldestLog else { return oldest }
      try pipeline.sync(through: pipeline.log.appendedPlace, for: .background)
      // After a restart of the log the segment may be a dead one.
      if pipeline.log.generation == generation, generation & 1 == 0 { return oldest }
    }
  }

  private func install(
    _ edit: VersionEdit, _ flushed: [FamilyID: Int], _ oldest: FileNumber
  ) throws(EngineError) {
    let dropped = try background.tree.commit(edit, flushed: flushed)
    // Whoever dropped a family gave its memtables back.
    for input in inputs where !dropped.contains(input.family.id) {
      background.pipeline.memory.didFlush(input.frozen)
    }
    // A segment that can't be put aside is an orphan: the next open removes it.
    try? background.pipeline.log.release(before: oldest)
  }

  /// The oldest segment with an entry that will be in no table after this job.
  ///
  /// The current segment is asked for first: a family that gets its first entry meanwhile gets it there
  /// or later.
  private func oldestNeededSegment() -> FileNumber {
    var oldest = background.pipeline.log.currentNumber
    for family in background.registry.all {
      let skipped = inputs.first { $0.family.id == family.id }?.frozen.count ?? 0
      if let segment = family.state.oldestSegment(skippingFrozen: skipped), segment < oldest { oldest = segment }
    }
    return oldest
  }

  // MARK: - Tables

  private func build(_ input: Input, _ written: inout [FileNumber]) throws(EngineError) -> [TableMetadata] {
    let snapshots = background.snapshots.sequences { background.pipeline.visible }
    let tombstones = FlushMerge.tombstones(input.frozen.map(\.table), snapshots: snapshots)
    var output = FlushOutput(input, background, tombstones)
    defer { written += output.written }
    do throws(EngineError) {
      try FlushMerge.run(
        input.frozen.map(\.table), snapshots: snapshots, tombstones: tombstones, merge: input.family.state.merge
      ) { (key) throws(EngineError) in
        try output.builder(for: key)
      }
      return try output.finish()
    } catch {
      output.discard()
      throw error
    }
  }
}

extension FlushJob.Input {
  var oldestSequence: SequenceNumber { frozen.first?.table.smallestSequence ?? .maximum }
  var newestSequence: SequenceNumber { frozen.last?.table.largestSequence ?? .zero }
}
