internal import Synchronization

/// Makes the log durable, and isolates a failed sync from later writes.
///
/// A failed sync is never retried: the system may have dropped the pages that it could not write and marked them clean,
/// so that a second sync succeeds without having written anything. The log is then broken until `beginRestart` has
/// written everything that is not durable to another segment and `endRestart` has ended the restart.
extension LogWriter {
  /// The outcome of a sync.
  enum SyncOutcome {
    case durable
    /// The sync of this call failed, and the log is broken.
    case failed(EngineError)
    /// An earlier sync failed, and this call did not try one.
    case broken
  }

  /// The part of the log that a sync makes durable.
  enum SyncTarget {
    /// Every record before a position.
    case position(LogPosition)
    /// Every segment before this one, and its header.
    ///
    /// This is all that freeing those segments needs, and it spares the segment being written: while the pages of a
    /// mapping are synced, each store to one of them faults and interrupts the other processors.
    case segment(FileNumber)
  }

  /// Everything before this position survives a loss of power.
  var durablePosition: LogPosition {
    LogPosition(durable.load(ordering: .acquiring))  // with the releasing stores of `durable`
  }

  /// Every logged commit up to this one survives a loss of power; later ones may, too.
  var durableSequence: SequenceNumber { SequenceNumber(durableSequenceWord.load(ordering: .acquiring)) }

  /// A Boolean value that indicates whether a sync failed and the log has not continued in a new segment since.
  var isBroken: Bool { broken.load(ordering: .acquiring) }  // with the releasing stores of `broken`

  /// The error because of which the log is broken, or `nil` if it is not.
  var syncError: EngineError? { state.withLock { $0.syncError } }

  /// A number that changes whenever a restart removes segments, and that is odd while it does.
  var generation: UInt64 { generationWord.load(ordering: .sequentiallyConsistent) }

  /// Makes the log durable up to `target`. One thread syncs for all waiting threads; a sync that began before a record
  /// was published does not count for it.
  ///
  /// `visible` returns the last visible commit: all visible ones are in the log.
  func trySync(_ target: SyncTarget, visible: () -> SequenceNumber) -> SyncOutcome {
    while !isDurable(target) {
      if isBroken { return .broken }
      let word = syncWord.load()
      if word & 1 != 0 {
        // Counted before `wait` checks the word again, so that either the waker sees the count or the sleeper sees the
        // new word.
        waitingSyncs.add(1, ordering: .sequentiallyConsistent)
        syncWord.wait(while: word)
        waitingSyncs.subtract(1, ordering: .relaxed)
        continue
      }
      guard syncWord.exchange(expected: word, desired: word | 1) == word else { continue }
      defer {
        syncWord.store((word | 1) &+ 1)
        if waitingSyncs.load(ordering: .sequentiallyConsistent) > 0 { syncWord.wakeAll() }
      }
      guard !isBroken, !isDurable(target) else { continue }
      do throws(EngineError) {
        let start = metrics.latencies.begin()
        switch target {
        case .position: try performSync(visible)
        case .segment(let number): try performSync(upTo: number)
        }
        metrics.latencies.end(.sync, from: start)
      } catch {
        breakOff(error)
        return .failed(error)
      }
    }
    return .durable
  }

  /// Makes the log durable like `trySync`, and throws if it is not durable afterwards.
  func sync(through position: LogPosition, visible: () -> SequenceNumber) throws(EngineError) {
    switch trySync(.position(position), visible: visible) {
    case .durable: return
    case .failed(let error): throw error
    case .broken: throw syncError ?? EngineError(.inputOutput, "a sync of the log failed", file: directory)
    }
  }

  /// Syncs everything published, oldest segment first. Called only by the thread that holds `syncWord`.
  private func performSync(_ visible: () -> SequenceNumber) throws(EngineError) {
    // The sequence is read before the ends are, so that every commit it includes is in the log below them.
    let sequence = visible()
    let (sealed, segment) = state.withLock { state in
      (state.live.filter { !$0.isDurable }, state.current)
    }
    let end = segment.published
    try performSync(ofSealed: sealed)
    segment.mapping?.unmapPages(segment.durable..<end)
    try segment.file.sync()
    noteDurable(segment, to: end, sequence)
    syncCounter.add(1, ordering: .relaxed)
  }

  /// Syncs the segments up to `number`. Of the current one, only the header is synced.
  ///
  /// Called only by the thread that holds `syncWord`.
  private func performSync(upTo number: FileNumber) throws(EngineError) {
    let (sealed, segment) = state.withLock { state in
      (state.live.filter { !$0.isDurable && $0.number <= number }, state.current)
    }
    try performSync(ofSealed: sealed)
    guard segment.number <= number else { return }
    try segment.file.sync(first: LogFormat.headerBlockSize)
    // Later commits may be durable as well; a caller that needs one of them syncs.
    noteDurable(segment, to: LogFormat.headerBlockSize, durableSequence)
  }

  private func performSync(ofSealed segments: [LiveSegment]) throws(EngineError) {
    for segment in segments {
      try segment.file?.sync()
      state.withLock { $0.markDurable(segment) }
    }
  }

  private func noteDurable(_ segment: LogSegment, to end: Int, _ sequence: SequenceNumber) {
    state.withLock { $0.durableEnd = segment.location(at: end) }
    segment.raiseDurable(to: end)
    raiseDurable(to: segment.logBase + end, sequence)
  }

  private func isDurable(_ target: SyncTarget) -> Bool {
    switch target {
    case .position(let position): durablePosition >= position
    case .segment(let number): state.withLock { $0.durableEnd.number >= number }
    }
  }

  func raiseDurable(to position: LogPosition, _ sequence: SequenceNumber) {
    durableSequenceWord.store(sequence.value, ordering: .releasing)  // partner: `durableSequence`
    durable.store(position.value, ordering: .releasing)  // partner: `durablePosition`
  }

  private func breakOff(_ error: EngineError) {
    state.withLock { $0.syncError = error }
    broken.store(true, ordering: .releasing)  // partner: `isBroken`
    metrics.counters.addFailure()
    metrics.events.emit(.backgroundError(error, in: .log, refusesWrites: false))
    // A leader waiting for a flush that waits for this sync has to check again.
    executor.wakeWaiters()
  }
}
