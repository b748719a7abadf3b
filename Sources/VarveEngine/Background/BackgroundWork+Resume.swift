internal import Synchronization

/// Retries failed work: after a pause that doubles, when a writer has to wait for it, and when the program calls
/// `resume`.
///
/// All pauses are on the engine's clock. Retries never end, and no failure is hidden: a writer that can't continue, and
/// a waiting caller, get the error of the last attempt.
extension BackgroundWork {
  // MARK: - Flushes

  func retryFlush(after error: EngineError) {
    // The log will continue in a new segment soon, or does so already. The flush then continues, and there is no
    // failure to report.
    let continues = error.code == .canceled || pipeline.needsRestart
    let now = tree.environment.clock.now()
    let free = error.code == .noSpace ? reserve.freeSpace : nil
    let (pause, number, isClosing) = state.withLock { state in
      state.failedAt = now
      // Fewer memtables may fit where all of a family did not.
      state.freeAtFailure = state.flushesDeletes ? nil : free
      state.flushesDeletes = false
      let pause = continues ? CommitPipeline.restartRetryNanoseconds : state.retryNanoseconds
      if !continues {
        state.flushError = error
        state.hasFlushFailed = true
        state.retryNanoseconds = min(state.retryNanoseconds * 2, Self.lastRetryNanoseconds)
      }
      state.isRetryPending = !state.isClosing
      if state.isClosing { state.isFlushScheduled = false }
      return (pause, state.retryNumber, state.isClosing)
    }
    makeRoom(after: error)
    settleIfShort()
    if !continues {
      metrics.counters.addFailure()
      metrics.events.emit(.backgroundError(error, in: .flush, refusesWrites: false))
      pipeline.memory.didFail(error)
    }
    executor.wakeWaiters()
    if !isClosing { submitRetry(number, after: pause) }
  }

  private func submitRetry(_ number: Int, after pause: UInt64) {
    executor.submit("flush.retry", after: pause) { [self] in
      if !isClosing, isStillFull, state.withLock({ $0.isRetryPending && $0.retryNumber == number }) {
        return submitRetry(number, after: Self.lastRetryNanoseconds)
      }
      if takeRetry(where: { $0.retryNumber == number }) { runFlush() }
    }
  }

  /// A Boolean value that indicates whether the last flush found no space, and there is not more now: an attempt would
  /// write as much as there is, and fail again.
  private var isStillFull: Bool {
    guard let before = state.withLock({ $0.freeAtFailure }) else { return false }
    let free = reserve.freeSpace
    return free <= before && free < UInt64(pipeline.memory.frozenSize)
  }

  /// Frees what the next attempt of a flush or a compaction may need: descriptors, or the space of the log files that
  /// are kept for reuse.
  func makeRoom(after error: EngineError) {
    tree.makeRoom(after: error)
    if error.code == .noSpace { pipeline.log.releaseKeptFiles() }
  }

  /// Returns whether work that frees space is running or due, and has not failed.
  func isRunning(_ work: CommitPipeline.SpaceWork) -> Bool {
    guard !isClosing else { return false }
    return switch work {
    case .flushes: state.withLock { $0.isFlushScheduled && $0.flushError == nil }
    case .compactions: compactions.isProceeding
    }
  }

  /// Compacts level 0 of all families without waiting for more tables, if space was scarce since the last flush:
  /// overwritten and deleted entries take space until then.
  func settleIfShort() {
    let isShort = state.withLock { state in
      defer { state.isShortOfSpace = false }
      return state.isShortOfSpace
    }
    if isShort { compactions.settle() }
  }

  /// Ends the wait for a retry. Returns false if there is none. The caller that gets true runs the flush.
  func takeRetry(where condition: (State) -> Bool) -> Bool {
    state.withLock { state in
      guard state.isRetryPending, condition(state) else { return false }
      state.isRetryPending = false
      state.retryNumber += 1
      return true
    }
  }

  /// Retries a failed flush at once, because a caller requests it and the cause may have disappeared.
  func retryFlushNow() {
    state.withLock { state in
      state.flushError = nil
      state.retryNanoseconds = Self.firstRetryNanoseconds
    }
    pipeline.memory.clearFailure()
    if takeRetry(where: { _ in true }) { executor.submit("flush", priority: .high) { [self] in runFlush() } }
  }

  /// Retries a failed flush at once, unless the last attempt has just failed. A writer waits and needs an up-to-date
  /// error.
  func retryStaleFlush() {
    let now = tree.environment.clock.now()
    let isStale = state.withLock { $0.isRetryPending && now &- $0.failedAt >= Self.firstRetryNanoseconds }
    if isStale, !isStillFull { retryFlushNow() }
  }

  // MARK: - Commits

  /// Retries after a pause to accept commits again, if the cause may disappear without intervention.
  func resumeCommitsLater() {
    let pause: UInt64? = state.withLock { state in
      guard !state.isResumePending, !state.isClosing else { return nil }
      state.isResumePending = true
      defer { state.resumeNanoseconds = min(state.resumeNanoseconds * 2, Self.lastRetryNanoseconds) }
      return state.resumeNanoseconds
    }
    guard let pause else { return }
    executor.submit("commits.resume", after: pause) { [self] in
      state.withLock { $0.isResumePending = false }
      guard !isClosing, pipeline.refusal?.passes == true else { return }
      // Any other leader checks as well, before the next commit.
      pipeline.leadIfFree { try? pipeline.resumeCommits($0) }
      if pipeline.refusal == nil {
        state.withLock { $0.resumeNanoseconds = Self.firstRetryNanoseconds }
      } else {
        resumeCommitsLater()
      }
    }
  }

  // MARK: - Everything

  /// The error because of which commits are refused or background work has stopped, according to the last attempts.
  var failure: EngineError? { pipeline.poisonError ?? state.withLock { $0.flushError } ?? compactions.error }

  /// Retries all failed work. Throws the first error that still occurs.
  func resume() throws(EngineError) {
    try pipeline.lead { (lead) throws(EngineError) in try pipeline.resumeCommits(lead) }
    state.withLock { $0.resumeNanoseconds = Self.firstRetryNanoseconds }
    obsolete.retry()
    pipeline.log.prepareNext()
    if state.withLock({ $0.flushError != nil || $0.isRetryPending }) {
      retryFlushNow()
      try waitForFlushes()
    }
    try compactions.resume()
  }
}
