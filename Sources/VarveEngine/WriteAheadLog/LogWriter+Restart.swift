internal import Synchronization

/// The continuation of the log after a failed sync: in a new segment, with everything that is not durable.
///
/// # Steps
/// 1. A new segment, a *restart* (`LogFormat`), names as its predecessor the position up to which the log is durable.
///    It begins with the entries after that position in one record; if they do not fit, in several, and more
///    segments.
/// 2. The segments and the directory are synced.
/// 3. The cut of the predecessor is written to the MANIFEST. From then on the new segments count, all at once, and
///    everything past the cut is dead; before, recovery reads the old chain as far as possible and ignores the new
///    segments, whose records have no durable mark until then.
/// 4. Waiting writers continue after them. The files of dead segments are removed.
///
/// If a step fails, the files stay, since the MANIFEST may name them. The caller allows no write until a later restart
/// succeeds; that one first makes sure that no cut of the failed one counts, then removes the files.
extension LogWriter {
  /// The changes made by a restart.
  struct Restart {
    /// Segments above this number and below `first` are dead.
    let cut: FileNumber
    /// The first of the new segments.
    let first: FileNumber
    fileprivate let last: SequenceNumber
    fileprivate let dead: [LiveSegment]
  }

  /// Performs steps 1 to 3. `endRestart` must follow a success.
  ///
  /// `last` is the last commit, `fill` adds the entries of the next record and returns whether there were any, and
  /// `commitCut` makes the cut durable in the MANIFEST.
  func beginRestart(
    _ lead: borrowing CommitLead, last: SequenceNumber, fill: (inout LogEntriesBuilder) -> Bool,
    commitCut: (LogSegmentHeader.Predecessor) throws(EngineError) -> Void
  ) throws(EngineError) -> Restart {
    precondition(isBroken, "a restart of a log whose syncs all succeeded")
    try removeAbandoned()
    generationWord.add(1, ordering: .sequentiallyConsistent)
    let cut = state.withLock { $0.durableEnd }
    var written: [LogSegment] = []
    do throws(EngineError) {
      try writeRestart(&written, after: cut, lead, fill)
      for segment in written { try segment.file.sync() }
      try environment.fileSystem.syncDirectory(directory)
      try commitCut(cut)
    } catch {
      abandon(written)
      throw error
    }
    let now = environment.clock.now()
    let syncs = syncCounter.load(ordering: .relaxed)
    let dead = state.withLock { $0.restart(written, after: cut, now: now, syncs: syncs) }
    for segment in written {
      segment.raiseDurable(to: segment.tail)
      setCurrent(segment, lead)
    }
    return Restart(cut: cut.number, first: written[0].number, last: last, dead: dead)
  }

  /// Performs step 4, after everything that refers to segments by number has been notified of the dead ones.
  func endRestart(_ restart: Restart, _ lead: borrowing CommitLead) {
    raiseDurable(to: current(lead).publishedInLog, restart.last)
    noteSwitch(lead)
    state.withLock { $0.syncError = nil }
    broken.store(false, ordering: .releasing)  // partner: `isBroken`
    generationWord.add(1, ordering: .sequentiallyConsistent)
    metrics.events.emit(.recovered(.log))
    for segment in restart.dead {
      segment.file?.close()
      // A segment that remains is an orphan: the next open removes it.
      try? environment.fileSystem.remove(directory + "/" + FileName.log(segment.number).name)
    }
    prepareNext()
  }

  /// Lists the segments of a restart that failed, because they may count after a crash.
  private func abandon(_ written: [LogSegment]) {
    for segment in written { segment.file.close() }
    abandoned += written.map(\.number)
    // The generation becomes even again, because no segment was removed.
    generationWord.add(1, ordering: .sequentiallyConsistent)
  }

  /// Removes the segments of failed restarts. None of their cuts can count any more.
  private func removeAbandoned() throws(EngineError) {
    guard !abandoned.isEmpty else { return }
    while let number = abandoned.last {
      let path = directory + "/" + FileName.log(number).name
      if try environment.fileSystem.attributes(path) != nil { try environment.fileSystem.remove(path) }
      abandoned.removeLast()
    }
    // They must be gone durably before other segments name the same predecessor.
    try environment.fileSystem.syncDirectory(directory)
  }

  /// Writes the new segments. The last is not sealed.
  private func writeRestart(
    _ written: inout [LogSegment], after cut: LogSegmentHeader.Predecessor, _ lead: borrowing CommitLead,
    _ fill: (inout LogEntriesBuilder) -> Bool
  ) throws(EngineError) {
    var builder = LogEntriesBuilder(capacity: 64 << 10)
    let charge = MemoryCharge(0, to: account)
    // The new positions may skip some numbers: positions only need to grow.
    var base = current(lead).publishedInLog
    while fill(&builder), let first = builder.first {
      let payload = builder.payload.view
      charge.resize(to: builder.payload.capacity)
      if written.last.map({ !$0.hasRoom(payloadSize: payload.count) }) ?? true {
        try addSegment(to: &written, after: cut, base: &base, payloadSize: payload.count, lead)
      }
      try written[written.count - 1].append(.entries, sequence: first, payload: payload)
      builder.removeAll()
    }
    // The charge lives as long as the builder.
    charge.resize(to: 0)
    if written.isEmpty { try addSegment(to: &written, after: cut, base: &base, payloadSize: 0, lead) }
  }

  private func addSegment(
    to written: inout [LogSegment], after cut: LogSegmentHeader.Predecessor, base: inout LogPosition, payloadSize: Int,
    _ lead: borrowing CommitLead
  ) throws(EngineError) {
    let capacity = Self.capacity(forPayload: payloadSize)
    let prepared = try takeReady(
      capacity: capacity, above: written.last?.number ?? current(lead).number, .usingReserve)
    var predecessor = cut
    if let last = written.last {
      do throws(EngineError) { try last.append(.end, sequence: .zero, payload: ByteView()) } catch {
        // Without a header the prepared file counts as an empty segment.
        abandoned.append(prepared.number)
        prepared.file.close()
        throw error
      }
      predecessor = last.location(at: last.tail)
      base = last.publishedInLog
    }
    let segment = LogSegment(number: prepared.number, lifeID: environment.random(), logBase: base, prepared: prepared)
    let isRestart = written.isEmpty
    // The segment is appended before its header is written, so that it is listed even if the write fails.
    written.append(segment)
    try segment.writeHeader(
      LogSegmentHeader(
        number: segment.number, lifeID: segment.lifeID, predecessor: predecessor,
        capacity: UInt64(segment.capacity), databaseID: databaseID, isRestart: isRestart))
  }
}
