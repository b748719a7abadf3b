/// What becomes of commits when a sync of the log fails.
///
/// The log can't be trusted after the position up to which it is durable, and no sync is tried again
/// (`LogWriter+Sync`). So whoever leads the commit queue next logs every entry above the durable
/// sequence again, in a new segment (`LogWriter+Restart`); commits wait meanwhile. If that fails, too, the
/// engine takes no more writes, and says why.
///
/// # What writers are told
/// - A commit whose own sync failed gets `.outcomeUnknown`, also where it was logged again with success:
///   somebody was told of a failing disk, and the caller must decide.
/// - Commits that wait for that sync or a later one get their durability from the new segment, and notice
///   nothing. Where there is none, they get `.outcomeUnknown`.
/// - Commits after a failed restart get `.readOnly` with the cause, or `.noSpace`; they happened in no way. The
///   restart is tried again by `cure` (`CommitPipeline+Refusal`).
///
/// # Who does it
/// The writer that met the failure leads for it. A background job must not wait for a leader, who may
/// wait for the job: it leads if nobody does, or leaves it to the leader, who looks before each commit and
/// while it waits for flushes.
extension CommitPipeline {
  /// Who asks for a sync.
  enum Syncer {
    /// A thread of the program: it may wait for the leader.
    case program
    /// A job of the engine's own, for which a restart is as good as a sync.
    case background
  }

  /// Makes the log durable up to `target`, by a restart if it must. Throws where that failed, to a program's
  /// thread what its own sync met, and to a job `.canceled` where it is to try again after the restart.
  func sync(_ target: LogWriter.SyncTarget, for syncer: Syncer) throws(EngineError) {
    defer { announcer.tell(synced: 0, log) }
    while true {
      var own: EngineError?
      var pending: UInt64 = 0
      let outcome = log.trySync(target) {
        pending = announcer.pending
        return visible
      }
      switch outcome {
      case .durable: return announcer.tell(synced: pending, log)
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

  /// Whether the log is to go on in a new segment, and still can.
  var needsRestart: Bool { log.isBroken && poisonError == nil }

  /// Continues in a new segment where a sync failed. Never between the append of a batch
  /// and its publication. A failure poisons the engine.
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
        // Also those that left no entry, so that none is given again.
        edit.lastSequence = last
        edit.logCuts = [.init(segment: cut.number, lifeID: cut.lifeID, endOffset: cut.end)]
        try commitEdit(edit)
      })
    for family in families.all { family.state.moveLog(above: restart.cut, to: restart.first, lead) }
    log.endRestart(restart, lead)
  }

  /// Every entry above the durable sequence, and of memtables that were logged again after the durable
  /// position every entry: the older copies may be in segments that are no longer kept for them.
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
