internal import Synchronization

/// How the log becomes durable, and how a failure of that is kept apart from all that comes later.
///
/// A failed sync is never tried again: the system may have dropped the pages that it could not write and
/// call them clean, so that a second sync succeeds and has written nothing. The log is broken then, and
/// stays so until `restart` wrote everything that is not durable to another segment.
extension LogWriter {
  /// What a sync came to.
  enum SyncOutcome {
    case durable
    /// This call's own sync failed; the log is broken.
    case failed(EngineError)
    /// A sync before failed, and this call tried none.
    case broken
  }

  /// What is to be durable.
  enum SyncTarget {
    /// Every record before a position.
    case position(LogPosition)
    /// Every segment before one, and its header.
    ///
    /// This is all that freeing those segments needs, and spares the one that is written to: while the pages of a
    /// mapping are synced, each store to one of them faults, and the other processors are interrupted for each.
    case segment(FileNumber)
  }

  /// Everything before this position survives a loss of power.
  var durablePosition: LogPosition {
    LogPosition(durable.load(ordering: .acquiring))  // with the releasing stores of `durable`
  }

  /// Every logged commit up to this one survives a loss of power; perhaps later ones, too.
  var durableSequence: SequenceNumber { SequenceNumber(durableSequenceWord.load(ordering: .acquiring)) }

  /// Whether a sync failed and the log has not gone on in a new segment since.
  var isBroken: Bool { broken.load(ordering: .acquiring) }  // with the releasing stores of `broken`

  /// Why the log is broken, if it is.
  var syncError: EngineError? { state.withLock { $0.syncError } }

  /// Changes whenever a restart takes segments away; odd while it does.
  var generation: UInt64 { generationWord.load(ordering: .sequentiallyConsistent) }

  /// Makes the log durable up to `target`. One thread syncs for all that wait; a sync that began before a
  /// record was published does not count for it.
  ///
  /// `visible` tells the last visible commit: all visible ones are in the log.
  func trySync(_ target: SyncTarget, visible: () -> SequenceNumber) -> SyncOutcome {
    while !isDurable(target) {
      if isBroken { return .broken }
      let word = syncWord.load()
      if word & 1 != 0 {
        // Counted before the word is looked at again by `wait`, so that the waker sees the count or
        // the sleeper sees the new word.
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

  /// As `trySync`, and throws where the log is not durable then.
  func sync(through position: LogPosition, visible: () -> SequenceNumber) throws(EngineError) {
    switch trySync(.position(position), visible: visible) {
    case .durable: return
    case .failed(let error): throw error
    case .broken: throw syncError ?? EngineError(.inputOutput, "a sync of the log failed", file: directory)
    }
  }

  /// Syncs what is published, oldest segment first. Only the thread that holds `syncWord`.
  private func performSync(_ visible: () -> SequenceNumber) throws(EngineError) {
    // Looked at before the ends are: what is visible now is in the log below them.
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

  /// Syncs the segments up to one, and of the current one the header alone. Only the thread that holds `syncWord`.
  private func performSync(upTo number: FileNumber) throws(EngineError) {
    let (sealed, segment) = state.withLock { state in
      (state.live.filter { !$0.isDurable && $0.number <= number }, state.current)
    }
    try performSync(ofSealed: sealed)
    guard segment.number <= number else { return }
    try segment.file.sync(first: LogFormat.headerBlockSize)
    // Later commits than this may be durable by now; who asks for one of them syncs.
    noteDurable(segment, to: LogFormat.headerBlockSize, durableSequence)
  }

  private func performSync(ofSealed segments: [LiveSegment]) throws(EngineError) {
    for segment in segments {
      try segment.file?.sync()
      state.withLock { $0.markDurable(segment) }
    }
  }

  private func noteDurable(_ segment: LogSegment, to end: Int, _ sequence: SequenceNumber) {
    state.withLock { $0.durableEnd = segment.place(at: end) }
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
    // A leader that waits for a flush, which waits for this sync, has to look.
    executor.wakeWaiters()
  }
}
