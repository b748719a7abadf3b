internal import Synchronization

/// Tables that lie wholly under range tombstones are dropped before anything else is looked for: that costs an edit
/// of the MANIFEST, and what is gone need not be compacted.
extension CompactionScheduler {
  /// Looks for covered tables of the families that changed, which are ready to be picked from then.
  ///
  /// Reads the range tombstones of new tables where they may cover something, so not under `picking`. Those of a table
  /// that can't be read are tried again at the next look; a compaction that needs the table meets the error.
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

  /// Only the picking job calls this, one call at a time.
  private func examine(_ id: FamilyID) {
    guard let family = background.registry.find(id), !family.isDropped else { return }
    // Before the version: what is in a version that every reader sees then is seen by all later ones, too.
    let oldest = oldestSequence
    let version = family.version
    guard version.hasRangeTombstones else { return covered.withLock { $0[id] = nil } }
    var known = covered.withLock { $0.removeValue(forKey: id) } ?? CoveredTables()
    known.update(to: version, oldestSnapshot: oldest) { try? background.tree.reader($0).rangeTombstones() }
    covered.withLock { $0[id] = family.isDropped ? nil : known }
  }

  /// The tables of a family that can go unread; nil if there are none.
  func dropping(_ input: LeveledCompactionPicker.Input) -> Compaction? {
    let inputs = covered.withLock { $0[input.family]?.idle(in: input.version, input.inProgress) }
    return inputs.flatMap { Compaction(dropping: $0, of: input.family, version: input.version) }
  }

  /// Takes tables out of the tree. False where that failed.
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

/// Tombstones that only a snapshot or a cursor keeps are looked at again when it goes.
extension CompactionScheduler {
  /// Notes that a family has something that waits for the end of a reader, if it has. A reader of the newest commit
  /// is none: it goes soon, and there is always one.
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
  /// The least sequence that every reader has to see before more tombstones can go than now: of tables at the bottom that
  /// are mostly tombstones, and of range tombstones. Nil: none waits for that.
  func sequenceAwaited(_ input: Input) -> SequenceNumber? {
    var awaited: SequenceNumber?
    func note(_ table: TableMetadata) {
      guard table.largestSequence > input.oldestSnapshot, !input.inProgress.isBusy(table) else { return }
      awaited = min(awaited ?? .maximum, table.largestSequence)
    }
    func isAwaited(_ chunk: TableChunk) -> Bool { chunk.largestSequence > input.oldestSnapshot }
    guard let deepest = input.version.deepestLevel else { return nil }
    if deepest > 0 {
      input.version.run(deepest).forEachTable(ofChunks: { $0.hasMostlyTombstones && isAwaited($0) }) {
        if $0.isMostlyTombstones { note($0) }
      }
    }
    input.version.forEachRun { run, _ in
      for chunk in run.tombstoneChunks where isAwaited(chunk) { chunk.tombstoneTables.forEach(note) }
    }
    return awaited
  }
}
