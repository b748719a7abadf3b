internal import Synchronization

/// Drops tables that lie completely under range tombstones before any other work is chosen.
///
/// A drop costs one edit of the MANIFEST, and dropped tables need not be compacted.
extension CompactionScheduler {
  /// Finds covered tables of the families that changed. They can be picked from then on.
  ///
  /// Reads the range tombstones of new tables that may cover others, so it does not run under `picking`. If a table
  /// can't be read, it is read again by the next update; a compaction that needs the table gets the error.
  func examineChanged() {
    let families = state.withLock { state in
      defer { state.changed.removeAll(keepingCapacity: state.changed.count < 64) }
      return state.changed.sorted()
    }
    for id in families {
      examine(id)
      state.withLock { _ = $0.examined.insert(id) }
    }
  }

  /// Finds the covered tables of one family. Called only by the picking job, one call at a time.
  private func examine(_ id: FamilyID) {
    guard let family = background.registry.find(id), !family.isDropped else { return }
    // The sequence is loaded before the version: what every reader of a version sees then is seen by all later readers,
    // too.
    let oldest = oldestSequence
    let version = family.version
    guard version.hasRangeTombstones else { return covered.withLock { $0[id] = nil } }
    var known = covered.withLock { $0.removeValue(forKey: id) } ?? CoveredTables()
    // One table may cover many, and long lists are not kept by their tables.
    var lists: [FileNumber: RangeTombstoneList] = [:]
    known.update(to: version, oldestSnapshot: oldest) { table in
      if let list = lists[table.number] { return list }
      let list = try? background.tree.reader(table).rangeTombstones()
      lists[table.number] = list
      return list
    }
    covered.withLock { $0[id] = family.isDropped ? nil : known }
  }

  /// Returns a compaction that drops a family's covered tables without reading them, or `nil` if there are none.
  func dropping(_ input: LeveledCompactionPicker.Input) -> Compaction? {
    let inputs = covered.withLock { $0[input.family]?.idle(in: input.version, input.inProgress) }
    return inputs.flatMap { Compaction(dropping: $0, of: input.family, version: input.version) }
  }

  /// Returns the tables of a version that are known to be covered.
  func coveredTables(of family: FamilyID, in version: Version) -> Set<FileNumber> {
    let known = covered.withLock { $0[family] }
    return Set(known?.idle(in: version, CompactionsInProgress()).flatMap { $0.tables.map(\.number) } ?? [])
  }

  /// Removes tables from the tree. Returns false if that failed.
  @discardableResult
  func drop(_ reservation: Reservation) -> Bool {
    let compaction = reservation.compaction
    let report = CompactionReport(compaction, background)
    var result: Result<Void, EngineError> = .success(())
    do throws(EngineError) { try background.tree.commit(compaction.edit(outputs: [])) } catch {
      result = .failure(error)
    }
    if case .success = result { background.metrics.counters.addDroppedUnread(compaction.inputTables.count) }
    report.end(result)
    finish(compaction.family, reservation.ticket, result)
    if case .failure = result { return false }
    return true
  }
}

/// What only a snapshot or a cursor retains is checked again when the reader is released.
extension CompactionScheduler {
  /// Notes that a family has entries that can't be dropped before a reader ends, if it has any.
  ///
  /// A reader of the newest commit does not count: it ends soon, and there is always one.
  func waitForSnapshots(_ input: LeveledCompactionPicker.Input) {
    guard background.snapshots.oldest != nil, let sequence = picker.sequenceAwaited(input) else { return }
    state.withLock { _ = $0.waiting.insert(input.family) }
    background.snapshots.wake(at: sequence)
  }

  func snapshotsWereReleased() {
    let families = state.withLock { state in
      defer { state.waiting = [] }
      return state.waiting
    }
    if !families.isEmpty { didChange(families) }
  }
}

extension LeveledCompactionPicker {
  /// Returns the lowest sequence that every reader must see before more can be dropped than now.
  ///
  /// It is that of range tombstones, that of tombstones that free much, or one at which a table is worth a rewrite in a
  /// pause of the writes. Returns `nil` if no table waits.
  func sequenceAwaited(_ input: Input) -> SequenceNumber? {
    var awaited: SequenceNumber?
    func note(_ sequence: SequenceNumber) {
      if sequence > input.oldestSnapshot { awaited = min(awaited ?? .maximum, sequence) }
    }
    input.version.forEachRun { run, _ in
      for chunk in run.tombstoneChunks where chunk.largestSequence > input.oldestSnapshot {
        for table in chunk.tombstoneTables where !input.inProgress.isBusy(table) { note(table.largestSequence) }
      }
    }
    forEachWithTombstones(input) { if !input.inProgress.isBusy($0) { note($0.largestSequence) } }
    forEachRewritable(input, in: .all, share: options.idleRewriteShare) { table, _, freeAt in
      if !input.inProgress.isBusy(table) { note(freeAt) }
      return nil
    }
    return awaited
  }
}
