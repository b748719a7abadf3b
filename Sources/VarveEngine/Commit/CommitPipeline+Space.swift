internal import Synchronization

/// Frees the log's own space on a full disk: the memtables that older segments are kept for are flushed, and then those
/// segments are used again.
///
/// The bound of the log (`CommitPipeline+LogBound`) follows from the memory budget, so a small disk may be full before
/// the log reaches it. A flush begins early, when there is no space for the segment after the current one and the
/// tables (`LogWriter+Space`). After it, level 0 is compacted as if writes had paused (`BackgroundWork.settleIfShort`).
/// Only if the current segment is full, too, the commit waits: for the flush; then, if not even a smaller segment
/// leaves the reserve, for compactions. At last the smallest segment may use the reserve, and after that the commit
/// fails with `.noSpace`.
extension CommitPipeline {
  /// Work that frees space.
  enum SpaceWork {
    case flushes, compactions
  }

  /// The questions that the pipeline asks about such work. A structure holds the functions, for the reason given at
  /// `Callback`.
  struct SpaceQuery {
    /// Returns whether the work is running or due, and has not failed.
    let isRunning: @Sendable (SpaceWork) -> Bool
    /// Returns the number of compactions that succeeded.
    let endedCompactionCount: @Sendable () -> UInt64
  }

  /// Sets the functions that answer questions about such work.
  func onSpaceQuery(_ query: SpaceQuery) { spaceWork.withLock { $0 = query } }

  /// Makes the leader freeze memtables before the next commit, because there is no space for another segment.
  func noteShortage() {
    isShortOfSpace.store(true, ordering: .releasing)
    noteBroken()
  }

  /// Freezes the memtables that older segments are kept for, if a shortage was noted. Call between commits.
  func freezeIfShort(_ lead: borrowing CommitLead) {
    if isShortOfSpace.exchange(false, ordering: .acquiringAndReleasing) { freezeLogged(lead) }
  }

  /// Freezes every memtable with entries in a segment before the current one.
  private func freezeLogged(_ lead: borrowing CommitLead) {
    let current = log.current(lead).number
    for family in families.all {
      if let segment = family.state.activeSegment(lead), segment != current { memory.freeze(family.state, lead) }
    }
    requestRelease()
  }

  /// Makes sure that a record fits in the current segment, or continues in the next one. If there is no space for that,
  /// waits for flushes and, if not even the smallest segment has space besides the reserve, for compactions.
  ///
  /// It may freeze any memtable. Throws before anything is written. A batch that frees space may at last use the space
  /// of the database's reserve.
  @inline(never)
  func makeRoomInLog(_ payloadSize: Int, _ lead: borrowing CommitLead, frees: Bool) throws(EngineError) {
    if try hasMadeRoomInLog(payloadSize, .none, lead) { return }
    log.didRunOutOfSpace()
    freezeLogged(lead)
    memory.retryFailedFlush()
    repeat {
      try wait(for: .flushes, lead)
      if try hasMadeRoomInLog(payloadSize, .withinReserve, lead) { return }
      try wait(for: .compactions, lead)
      if try hasMadeRoomInLog(payloadSize, .withinReserve, lead) { return }
    } while isRunning(.flushes) || isRunning(.compactions)
    do throws(EngineError) { try log.makeRoom(payloadSize: payloadSize, .usingReserve, lead) } catch {
      guard usesReserve(after: error, frees: frees) else { throw error }
      try log.makeRoom(payloadSize: payloadSize, .usingReserve, lead)
    }
  }

  /// Returns false if there is no space.
  private func hasMadeRoomInLog(
    _ payloadSize: Int, _ economy: LogWriter.Economy, _ lead: borrowing CommitLead
  ) throws(EngineError) -> Bool {
    do throws(EngineError) { try log.makeRoom(payloadSize: payloadSize, economy, lead) } catch {
      if error.code == .noSpace { return false }
      throw error
    }
    return true
  }

  /// Waits until all flushes have ended, or until one compaction has. Continues the log in a new segment if the work
  /// waits for that.
  private func wait(for work: SpaceWork, _ lead: borrowing CommitLead) throws(EngineError) {
    let count = endedCompactionCount
    let mustWait: @Sendable () -> Bool = { [self] in
      isRunning(work) && (work == .flushes || endedCompactionCount == count)
    }
    while mustWait() {
      memory.waitForSpace(while: { [self] in mustWait() && !needsRestart })
      guard needsRestart else { return }
      restartIfBroken(lead)
      if let refusal { throw refusedError(refusal.error) }
    }
  }

  private func isRunning(_ work: SpaceWork) -> Bool { spaceWork.withLock { $0 }?.isRunning(work) ?? false }

  private var endedCompactionCount: UInt64 { spaceWork.withLock { $0 }?.endedCompactionCount() ?? 0 }
}
