internal import Synchronization

/// The conditions under which the pipeline refuses commits, and its recovery from them.
///
/// Three operations can't be left half-done while commits continue: the restart of a log whose sync failed, and a
/// MANIFEST edit whose outcome is unknown, if it drops a family or ingests tables. If one of them fails, commits are
/// refused. `resumeCommits` completes the restart, and makes the edit have no effect; when it succeeds, the engine need
/// not be reopened.
///
/// # Retries
/// - A full disk and a process without free descriptors recover by themselves: a timer retries, and so does a writer if
///   the last attempt is long enough ago.
/// - A failing device is retried only on request (`Engine.resume`).
///
/// The error of a refused commit carries the cause of the last failed attempt.
extension CommitPipeline {
  struct Refusal: Sendable {
    var error: EngineError
    /// A Boolean value that indicates whether the refusal is permanent; true once the engine is closed.
    var isFinal: Bool
    /// Time of the last attempt, on the engine's clock.
    var lastAttempt: UInt64

    /// A Boolean value that indicates whether the cause may disappear without intervention.
    var passes: Bool { !isFinal && error.code.passes }
  }

  private static var attemptNanoseconds: UInt64 { 100_000_000 }

  var poisonError: EngineError? { refusal?.error }

  /// Refuses all further writes because of `error`. The first error stays until `resumeCommits` fails with another one.
  func poison(_ error: EngineError, isFinal: Bool = false) {
    let now = log.environment.clock.now()
    if refusal == nil && !isFinal {
      log.metrics.events.emit(.backgroundError(error, in: .log, refusesWrites: true))
    }
    if refusal == nil || isFinal { refusal = Refusal(error: error, isFinal: isFinal, lastAttempt: now) }
    noteBroken()
    if !isFinal { didRefuse() }
  }

  /// Completes the unfinished operation and accepts commits again. Throws the error that prevents it.
  func resumeCommits(_ lead: borrowing CommitLead) throws(EngineError) {
    guard let old = refusal, !old.isFinal else { return restartIfBroken(lead) }
    let isBroken = log.isBroken
    do throws(EngineError) {
      // The edits are settled first: whether the cut of a failed restart counts must be known before its segments are
      // removed.
      try settleEdits()
    } catch {
      refusal = Refusal(error: error, isFinal: false, lastAttempt: log.environment.clock.now())
      didRefuse()
      throw refusedError(error)
    }
    refusal = nil
    restartIfBroken(lead)
    clearBroken()
    if let error = poisonError { throw refusedError(error) }
    // A restart of the log has emitted its own event.
    if !isBroken { log.metrics.events.emit(.recovered(.log)) }
  }

  /// Returns the error for a refused commit, which had no effect.
  func refusedError(_ cause: EngineError) -> EngineError {
    let code: EngineError.Code = cause.code.passes ? cause.code : .readOnly
    return EngineError(code, "the engine takes no more writes", cause: cause, file: cause.file)
  }

  /// Repairs the pipeline before a commit.
  ///
  /// Within a commit, pending work is deferred: `touched` describes the present batch, and another commit would change
  /// it.
  @inline(never)
  func repair(_ lead: borrowing CommitLead, isWithinCommit: Bool = false) throws(EngineError) {
    restartIfBroken(lead)
    if let refusal {
      let now = log.environment.clock.now()
      guard refusal.passes, now &- refusal.lastAttempt >= Self.attemptNanoseconds else {
        throw refusedError(refusal.error)
      }
      try resumeCommits(lead)
    } else {
      clearBroken()
    }
    guard !isWithinCommit else { return noteBroken() }
    freezeIfShort(lead)
    doPendingWork(lead)
  }
}

extension EngineError.Code {
  /// A Boolean value that indicates whether an operation that fails with this code may succeed later by itself: when
  /// there is space, or a descriptor.
  var passes: Bool { self == .noSpace || self == .tooManyOpenFiles }
}

/// The errors of commits for which a family is not suitable.
extension CommitPipeline {
  static func operatorError(_ family: FamilyState) -> EngineError {
    guard let name = family.options.mergeOperator else {
      return EngineError(
        .invalidArgument,
        "column family \"\(family.name)\" has no merge operator: name one in its options when it is made")
    }
    return EngineError(
      .invalidArgument,
      "merge operator \"\(name)\" of column family \"\(family.name)\" is not known: pass it in EngineOptions.mergeOperators"
    )
  }

  static func droppedError(_ family: FamilyState) -> EngineError {
    EngineError(.familyDropped, "column family \"\(family.name)\" was dropped")
  }
}
