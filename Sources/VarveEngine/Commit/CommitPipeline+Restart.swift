/// Recovery from a failed sync of the log.
///
/// The log can't be trusted past the position up to which it is durable, and no sync is retried (`LogWriter+Sync`). So
/// the next leader of the commit queue logs every entry above the durable sequence again, in a new segment
/// (`LogWriter+Restart`); commits wait meanwhile. If that fails as well, the engine refuses writes and reports the
/// cause.
///
/// # Errors that writers get
/// - A commit whose own sync failed gets `.outcomeUnknown`, even if it was logged again successfully: the disk failed,
///   and the caller must decide what to do.
/// - Commits that wait for that sync or a later one get their durability from the new segment and notice nothing. If
///   there is no new segment, they get `.outcomeUnknown`.
/// - Commits after a failed restart get `.readOnly` with the cause, or `.noSpace`; they have no effect. `resumeCommits`
///   retries the restart (`CommitPipeline+Refusal`).
///
/// # Threads
/// The writer whose sync failed leads for the restart. A background job must not wait for a leader, which may wait for
/// the job: it leads if there is no leader, or else leaves the restart to the leader, which checks before each commit
/// and while it waits for flushes.
extension CommitPipeline {
  /// The kind of thread that requests a sync.
  enum Syncer {
    /// A thread of the program, which may wait for the leader.
    case program
    /// A job of the engine, for which a restart is as good as a sync.
    case background
  }

  /// Makes the log durable up to `target`, by a restart if necessary.
  ///
  /// If that fails, a thread of the program gets the error of its own sync, and a job gets `.canceled` if it should
  /// retry after the restart.
  func sync(_ target: LogWriter.SyncTarget, for syncer: Syncer) throws(EngineError) {
    defer { announcer.announce(synced: 0, log) }
    while true {
      var own: EngineError?
      var pending: UInt64 = 0
      let outcome = log.trySync(target) {
        pending = announcer.pending
        return visible
      }
      switch outcome {
      case .durable: return announcer.announce(synced: pending, log)
      case .broken: break
      case .failed(let error): own = error
      }
      noteBroken()
      switch syncer {
      case .program: lead { restartIfBroken($0) }
      case .background: leadIfFree { restartIfBroken($0) }
      }
      if let error = poisonError { throw error }
      if syncer == .program, let own { throw own }
      if syncer == .background, log.isBroken {
        throw EngineError(.canceled, "the log continues in a new segment soon", cause: log.syncError)
      }
    }
  }

  /// Makes every commit in the log durable before an edit that names the last of them, by a restart if necessary.
  ///
  /// Readers in other processes take the commits up to the last sequence of an edit for acknowledged. Throws if neither
  /// is possible.
  func syncLeading(_ lead: borrowing CommitLead) throws(EngineError) {
    var pending: UInt64 = 0
    let outcome = log.trySync(.position(log.appendedPosition)) {
      pending = announcer.pending
      return visible
    }
    if case .durable = outcome { return announcer.announce(synced: pending, log) }
    noteBroken()
    restartIfBroken(lead)
    if let error = poisonError { throw refusedError(error) }
    announcer.announce(synced: 0, log)
  }

  /// A Boolean value that indicates whether the log must continue in a new segment, and still can.
  var needsRestart: Bool { log.isBroken && poisonError == nil }

  /// Continues in a new segment if a sync failed. A failure poisons the engine.
  ///
  /// It must not be called between the append of a batch and its publication.
  func restartIfBroken(_ lead: borrowing CommitLead) {
    guard needsRestart else { return }
    do throws(EngineError) {
      try restart(lead)
      clearBroken()
    } catch {
      poison(
        EngineError(
          error.code, "a sync of the log failed, and so did logging again what was not durable: \(error.message)",
          cause: log.syncError ?? error, file: error.file, offset: error.offset))
    }
  }

  private func restart(_ lead: borrowing CommitLead) throws(EngineError) {
    let last = visible
    var entries = undurableEntries(lead)
    let restart = try log.beginRestart(
      lead, last: last,
      fill: { builder in entries.fill(&builder, sizeMaximum: log.options.entriesSizeMaximum) },
      commitCut: { (cut) throws(EngineError) in
        var edit = VersionEdit()
        // The edit includes sequences of which no entry is left, so that none is assigned again.
        edit.lastSequence = last
        edit.logCuts = [.init(segment: cut.number, lifeID: cut.lifeID, endOffset: cut.end)]
        try commitEdit(edit)
      })
    for family in families.all { family.state.moveLog(above: restart.cut, to: restart.first, lead) }
    log.endRestart(restart, lead)
  }

  /// Returns every entry above the durable sequence, and all entries of memtables that were logged again after the
  /// durable position.
  ///
  /// The older copies of the latter may be in segments that are no longer kept for them.
  private func undurableEntries(_ lead: borrowing CommitLead) -> LoggedEntries {
    let sequence = log.durableSequence
    let position = log.durablePosition
    var entries = LoggedEntries()
    for family in families.all where !family.state.isVolatile {
      for frozen in family.state.frozen {
        entries.add(frozen.table, of: family.id, above: frozen.copyPosition > position ? .zero : sequence)
      }
      let isCopied = family.state.copyPosition(lead) > position
      entries.add(family.state.active(lead), of: family.id, above: isCopied ? .zero : sequence)
    }
    entries.sort()
    return entries
  }
}
