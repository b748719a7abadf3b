internal import Synchronization

/// Waits for compactions, and retries failed ones.
extension CompactionScheduler {
  // MARK: - After a failure

  /// Retries failed compactions after a pause that doubles.
  func retryLater() {
    let pause: UInt64? = state.withLock { state in
      guard !state.isRetryPending, !state.isClosing else { return nil }
      state.isRetryPending = true
      defer { state.retryNanoseconds = min(state.retryNanoseconds * 2, Self.lastRetryNanoseconds) }
      return state.retryNanoseconds
    }
    background.executor.wakeWaiters()
    guard let pause else { return }
    background.executor.submit("compaction.retry", after: pause) { [self] in
      state.withLock { $0.isRetryPending = false }
      retryNow()
    }
  }

  /// Retries failed compactions at once.
  func retryNow() {
    didChange(
      state.withLock { state in
        defer { state.failed = [] }
        return state.failed
      })
  }

  /// The error of the last compaction if none succeeded since, of one that waits for space, or of the first damaged
  /// table.
  var error: EngineError? { state.withLock { $0.error ?? $0.space.error ?? $0.suspects.all.first?.error } }

  /// Clears the last failure and retries. Returns when the outcome is known, and throws the present cause if there
  /// still is one.
  ///
  /// It does not wait for other compaction work. Damaged tables are read again completely: those that are intact are
  /// compacted again.
  func resume() throws(EngineError) {
    let damage = resumeSuspects()
    try resumeFailed()
    if let damage { throw damage }
  }

  private func resumeFailed() throws(EngineError) {
    let hasFailed = state.withLock { state in
      state.error = nil
      state.failed.formUnion(state.space.retryAll())
      return !state.failed.isEmpty
    }
    guard hasFailed else { return }
    state.withLock { $0.retryNanoseconds = Self.firstRetryNanoseconds }
    let before = state.withLock { $0.successCount }
    retryNow()
    background.executor.wait(until: { [self] in
      state.withLock { $0.error != nil || $0.successCount != before || $0.isIdle || $0.isClosing }
    })
    if let error = state.withLock({ $0.error ?? $0.space.error }) { throw error }
  }

  // MARK: - Waiting

  /// Settles all families, and returns when no compaction is due or running. Throws errors of compactions in the
  /// meantime, and `.noSpace` if one that is due does not fit.
  func waitUntilIdle() throws(EngineError) {
    state.withLock { state in
      state.error = nil
      // A caller waits, so failed compactions are retried now.
      state.failed = []
      _ = state.space.retryAll()
    }
    settle()
    background.executor.wait(until: { [self] in state.withLock { $0.isIdle || $0.error != nil } })
    if let error = state.withLock({ $0.error ?? $0.space.error }) { throw error }
  }

  /// Compacts all tables that overlap `range` down to the last level.
  ///
  /// A damaged table is skipped together with all tables that would be merged with it; the rest is compacted, and then
  /// the error of the damage is thrown.
  func compactManually(
    _ family: FamilyState, range: UserKeyRange, newest: SequenceNumber
  ) throws(EngineError) {
    while true {
      if family.isDropped { throw CommitPipeline.droppedError(family) }
      if background.isClosing || background.endsRequests {
        throw EngineError(.canceled, "the engine closes")
      }
      var isBlocked = false
      let reservation = reserve {
        switch picker.pickManual(input(family), range: range, newest: newest) {
        case .done: return nil
        case .blocked:
          isBlocked = true
          return nil
        case .compaction(let compaction): return compaction
        }
      }
      if let reservation {
        let suspectCount = state.withLock { $0.suspects.count }
        let outcome = CompactionOutcome()
        begin(reservation) { outcome.set($0) }
        background.executor.wait(until: { outcome.isKnown })
        do throws(EngineError) { try outcome.get() } catch {
          // The error is new damage: the rest continues without the table.
          guard state.withLock({ $0.suspects.count }) > suspectCount else { throw error }
        }
      } else if isBlocked, state.withLock({ $0.runningCount > 0 || $0.suspects.of(family.id).isEmpty }) {
        waitForOne()
      } else {
        if let error = damage(in: range, of: family.id) { throw error }
        return
      }
    }
  }

  func waitForOne() {
    let before = state.withLock { $0.runningCount }
    background.executor.wait(until: { [self] in state.withLock { $0.runningCount < before || $0.runningCount == 0 } })
  }

  /// Starts no more compactions.
  func abandon() {
    state.withLock { state in
      state.isClosing = true
      state.changed = []
      state.examined = []
      state.due = [:]
    }
  }

  /// Starts no more compactions, and returns when the running ones have ended.
  func stop() {
    abandon()
    // A thread that picked before the engine began to close has registered its compaction by then.
    picking.withLock { _ in }
    background.executor.wait(until: { [self] in
      state.withLock { $0.runningCount == 0 && !$0.isPickScheduled }
    })
  }
}

/// The result of a compaction. One thread sets it, and another waits for it.
final class CompactionOutcome: Sendable {
  private let result = Mutex<Result<Void, EngineError>?>(nil)
  var isKnown: Bool { result.withLock { $0 != nil } }
  func set(_ outcome: Result<Void, EngineError>) { result.withLock { $0 = outcome } }

  /// Throws the error of a failed compaction.
  ///
  /// A compaction canceled because its family was dropped does not count as failed.
  func get() throws(EngineError) {
    guard case .failure(let error) = result.withLock({ $0 }), error.code != .canceled else { return }
    throw error
  }
}
