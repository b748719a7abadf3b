internal import Synchronization

/// Tables that lie wholly under range tombstones are dropped before anything else is looked for: that costs an edit
/// of the MANIFEST, and what is gone need not be compacted.
extension CompactionScheduler {
  /// The tables of a family that can go unread; nil if there are none.
  ///
  /// The range tombstones of open tables are in memory; a table's are read once. One that can't be read is no
  /// reason to stop: whoever needs the table meets the error.
  func covered(_ input: LeveledCompactionPicker.Input) -> Compaction? {
    guard input.version.hasRangeTombstones else { return nil }
    var covered = CoveredTables(oldestSnapshot: input.oldestSnapshot)
    for level in 0..<Limits.levelCount {
      for table in input.version.tables(level: level) where table.rangeTombstoneCount > 0 {
        guard let list = try? background.tree.reader(table).rangeTombstones() else { continue }
        covered.add(list, of: table)
      }
    }
    return Compaction(
      dropping: covered.find(in: input.version, input.inProgress), of: input.family, version: input.version)
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
    guard let deepest = input.version.deepestLevel else { return nil }
    if deepest > 0 { input.version.run(deepest).tables.filter(Self.isMostlyTombstones).forEach(note) }
    guard input.version.hasRangeTombstones else { return awaited }
    for level in 0..<Limits.levelCount {
      input.version.tables(level: level).filter { $0.rangeTombstoneCount > 0 }.forEach(note)
    }
    return awaited
  }
}
