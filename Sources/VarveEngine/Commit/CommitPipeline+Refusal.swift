internal import Synchronization

/// When the pipeline takes no commits, why, and how it takes them again.
///
/// Two things can't be left half-done while commits go on: the restart of a log whose sync failed, and an
/// edit of the MANIFEST that drops a family, of which nobody knows whether it counts. Where they fail, commits
/// are refused. `cure` does what is missing; when it succeeds, nothing has to be opened anew.
///
/// # Who tries
/// - A full disk, and a process without descriptors, pass by themselves: a timer tries, and a writer does,
///   where the last attempt is a while ago.
/// - A device that fails is tried again only when somebody says so (`Engine.resume`).
///
/// The error of a refused commit names what the last attempt met.
extension CommitPipeline {
  struct Refusal: Sendable {
    var error: EngineError
    /// Whether there is a way back; not where the engine is closed.
    var isFinal: Bool
    /// On the engine's clock.
    var lastAttempt: UInt64

    /// Whether the cause may pass without anybody's help.
    var passes: Bool { !isFinal && error.code.passes }
  }

  private static var attemptNanoseconds: UInt64 { 100_000_000 }

  var poisonError: EngineError? { refusal?.error }

  /// Refuses all further writes, for this reason. The first reason stays until `cure` meets another.
  func poison(_ error: EngineError, isFinal: Bool = false) {
    let now = log.environment.clock.now()
    if refusal == nil && !isFinal {
      log.metrics.events.emit(.backgroundError(error, in: .log, refusesWrites: true))
    }
    if refusal == nil || isFinal { refusal = Refusal(error: error, isFinal: isFinal, lastAttempt: now) }
    noteBroken()
    if !isFinal { didRefuse() }
  }

  /// Does what is missing, and takes commits again; throws what keeps it from that now.
  func cure(_ lead: borrowing CommitLead) throws(EngineError) {
    guard let old = refusal, !old.isFinal else { return restartIfBroken(lead) }
    let isBroken = log.isBroken
    do throws(EngineError) {
      // First: whether the cut of a failed restart counts must be known before its segments go.
      try settle()
    } catch {
      refusal = Refusal(error: error, isFinal: false, lastAttempt: log.environment.clock.now())
      didRefuse()
      throw refusedError(error)
    }
    refusal = nil
    restartIfBroken(lead)
    clearBroken()
    if let error = poisonError { throw refusedError(error) }
    // A restart of the log has told of it itself.
    if !isBroken { log.metrics.events.emit(.recovered(.log)) }
  }

  /// What a commit gets that is refused. It happened in no way.
  func refusedError(_ cause: EngineError) -> EngineError {
    let code: EngineError.Code = cause.code.passes ? cause.code : .readOnly
    return EngineError(code, "the engine takes no more writes", cause: cause, file: cause.file)
  }

  /// Does, before a commit, what keeps commits from being taken. Within a commit, what waits to be committed waits
  /// longer: `touched` says what the present batch needs, and another commit would change it.
  @inline(never)
  func repair(_ lead: borrowing CommitLead, isWithinCommit: Bool = false) throws(EngineError) {
    restartIfBroken(lead)
    if let refusal {
      let now = log.environment.clock.now()
      guard refusal.passes, now &- refusal.lastAttempt >= Self.attemptNanoseconds else {
        throw refusedError(refusal.error)
      }
      try cure(lead)
    } else {
      clearBroken()
    }
    if isWithinCommit { noteBroken() } else { doPendingWork(lead) }
  }
}

extension EngineError.Code {
  /// Whether what fails with this may work again without anybody's help: when there is space, or a
  /// descriptor.
  var passes: Bool { self == .noSpace || self == .tooManyOpenFiles }
}
