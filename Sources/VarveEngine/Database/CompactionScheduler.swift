internal import Synchronization

/// Decides when compactions run, and how many side by side.
///
/// Families whose tables changed wait in a set; a job of its own picks for them until nothing is due or
/// every thread is busy. Trivial moves happen in that job; everything else runs as jobs of low priority,
/// cut by key range into as many parts as there are threads.
///
/// # Concurrency
/// Safe from any thread; `state` is guarded by its mutex, and nothing is read, written or called while it
/// is held. `picking` makes one step of choosing a compaction and noting that its tables are taken: the
/// picking job and callers of `compactManually` choose at the same time. Lock order: `picking`, `state`.
final class CompactionScheduler: Sendable {
  private unowned let background: BackgroundWork
  let picker: LeveledCompactionPicker
  private let picking = Mutex<Void>(())
  private let state = Mutex(State())

  fileprivate struct State: Sendable {
    /// Families that may have something due.
    var changed: Set<FamilyID> = []
    var inProgress = CompactionsInProgress()
    var runningCount = 0
    var isPickScheduled = false
    var isClosing = false
    var error: EngineError?
    var retryNanoseconds = CompactionScheduler.firstRetryNanoseconds
    /// Families that nothing was flushed for lately: what waits in level 0 for more of its kind is
    /// compacted, too.
    var settling: Set<FamilyID> = []
    /// Counts flushes, so that a timer sees whether there were any.
    var flushCount: UInt64 = 0
    var isIdleTimerSet = false
    /// Input bytes of running compactions that are written already.
    var progress: [CompactionsInProgress.Ticket: UInt64] = [:]
  }

  /// So long without a flush, and families are settled.
  private static let idleNanoseconds: UInt64 = 1_000_000_000
  private static let firstRetryNanoseconds: UInt64 = 100_000_000
  private static let lastRetryNanoseconds: UInt64 = 5_000_000_000

  init(_ background: BackgroundWork, picker: LeveledCompactionPicker) {
    self.background = background
    self.picker = picker
  }

  // MARK: - What is due

  /// Notes that a family's tables changed.
  func didChange(_ families: some Sequence<FamilyID>) {
    state.withLock { $0.changed.formUnion(families) }
    schedulePick()
  }

  /// Notes that a family was flushed. When none was for a while, it is settled.
  func didFlush(_ families: some Sequence<FamilyID>) {
    let shouldSetTimer = state.withLock { state in
      state.settling.subtract(families)
      state.flushCount += 1
      defer { state.isIdleTimerSet = true }
      return !state.isIdleTimerSet
    }
    didChange(families)
    if shouldSetTimer { setIdleTimer() }
  }

  private func setIdleTimer() {
    let count = state.withLock { $0.flushCount }
    background.executor.submit("compaction.idle", after: Self.idleNanoseconds) { [self] in
      // Nil: the engine closes, and nothing else of it is touched.
      let isIdle: Bool? = state.withLock { state in
        if state.isClosing { return nil }
        let isIdle = state.flushCount == count
        if isIdle { state.isIdleTimerSet = false }
        return isIdle
      }
      guard let isIdle else { return }
      if isIdle { settle() } else { setIdleTimer() }
    }
  }

  /// Compacts also what only waits in level 0 for more to come.
  private func settle() {
    let families = background.registry.all.map(\.id)
    state.withLock { $0.settling = Set(families) }
    didChange(families)
  }

  private func schedulePick() {
    let shouldSubmit = state.withLock { state in
      guard !state.isPickScheduled, state.canPick(background.executor.parallelism) else { return false }
      state.isPickScheduled = true
      return true
    }
    if shouldSubmit { background.executor.submit("compaction.pick", priority: .normal) { [self] in runPick() } }
  }

  private func runPick() {
    while pickOne() {}
    state.withLock { $0.isPickScheduled = false }
    // What came between the last look and the line before is not left behind.
    schedulePick()
    background.executor.wakeWaiters()
  }

  /// Begins the most urgent compaction, or moves tables. False where nothing is due or no thread free.
  private func pickOne() -> Bool {
    let candidates = state.withLock { state in
      state.canPick(background.executor.parallelism) ? state.changed.sorted() : []
    }
    guard !candidates.isEmpty else { return false }
    let reservation = reserve {
      var best: Compaction?
      for id in candidates {
        // Taken out before the look: a change that comes meanwhile puts it in again.
        state.withLock { _ = $0.changed.remove(id) }
        guard let found = pick(id) else { continue }
        state.withLock { _ = $0.changed.insert(id) }
        if best.map({ found.score > $0.score }) ?? true { best = found }
      }
      return best
    }
    guard let reservation else { return false }
    return begin(reservation, whenDone: nil)
  }

  private func pick(_ id: FamilyID) -> Compaction? {
    guard let family = background.registry.find(id), !family.isDropped else { return nil }
    return picker.pick(input(family))
  }

  /// What runs is read before the version: a compaction that ends in between still counts as running, and
  /// its tables, which the version no longer has, are not chosen again.
  private func input(_ family: FamilyState) -> LeveledCompactionPicker.Input {
    let oldest = background.snapshots.oldest ?? background.pipeline.visible
    let (inProgress, isSettling) = state.withLock { ($0.inProgress, $0.settling.contains(family.id)) }
    return LeveledCompactionPicker.Input(
      family: family.id, version: family.version, inProgress: inProgress, oldestSnapshot: oldest,
      isSettling: isSettling)
  }

  // MARK: - Running

  /// A compaction whose tables no other one can choose.
  private struct Reservation {
    let compaction: Compaction
    let ticket: CompactionsInProgress.Ticket
  }

  private func reserve(_ choose: () -> Compaction?) -> Reservation? {
    picking.withLock { _ in
      guard let compaction = choose() else { return nil }
      let ticket = state.withLock { state in
        state.runningCount += 1
        return state.inProgress.begin(compaction)
      }
      return Reservation(compaction: compaction, ticket: ticket)
    }
  }

  /// Moves tables at once, or begins a job. False where it failed.
  @discardableResult
  private func begin(_ reservation: Reservation, whenDone: (@Sendable () -> Void)?) -> Bool {
    let compaction = reservation.compaction
    let ticket = reservation.ticket
    if compaction.isTrivialMove {
      do throws(EngineError) {
        // A family that was dropped meanwhile has nothing to move, and its tables are given up with it.
        _ = try background.tree.commit(compaction.moveEdit())
        finish(compaction.family, ticket, .success(()))
        whenDone?()
        return true
      } catch {
        finish(compaction.family, ticket, .failure(error))
        whenDone?()
        return false
      }
    }
    let family = compaction.family
    CompactionJob(compaction, background: background) { [self] bytes in
      state.withLock { $0.progress[ticket, default: 0] += bytes }
    } whenDone: { [self] result in
      finish(family, ticket, result)
      whenDone?()
    }.start()
    return true
  }

  private func finish(
    _ family: FamilyID, _ ticket: CompactionsInProgress.Ticket, _ result: Result<Void, EngineError>
  ) {
    // First what the compaction leaves over: who waits for its end may look for the files.
    background.epochs.poll()
    state.withLock { state in
      state.inProgress.finish(ticket)
      state.progress[ticket] = nil
      if case .success = result {
        state.error = nil
        state.retryNanoseconds = Self.firstRetryNanoseconds
        state.changed.insert(family)
      }
    }
    background.tree.cache.trimIfShrunk()
    if case .failure(let error) = result { didFail(error, family: family) }
    background.updateController()
    // Last: until then this thread may hold a version, and with it files that the next compaction replaces.
    state.withLock { $0.runningCount -= 1 }
    schedulePick()
    background.executor.wakeWaiters()
  }

  /// Tries again after a pause that doubles. A job that was given up because the engine closes or the
  /// family went is no failure.
  private func didFail(_ error: EngineError, family: FamilyID) {
    guard error.code != .canceled else { return }
    let pause = state.withLock { state in
      state.error = error
      state.changed.remove(family)
      defer { state.retryNanoseconds = min(state.retryNanoseconds * 2, Self.lastRetryNanoseconds) }
      return state.retryNanoseconds
    }
    background.executor.wakeWaiters()
    background.executor.submit("compaction.retry", after: pause) { [self] in didChange([family]) }
  }

  // MARK: - Waiting

  /// Settles all families; returns when nothing is due and nothing runs; throws what the last
  /// compaction met.
  func waitUntilIdle() throws(EngineError) {
    settle()
    background.executor.wait(until: { [self] in state.withLock { $0.isIdle || $0.error != nil } })
    if let error = state.withLock({ $0.error }) { throw error }
  }

  /// Compacts all tables that overlap `range` down to the last level.
  func compactManually(
    _ family: FamilyState, range: UserKeyRange, newest: SequenceNumber
  ) throws(EngineError) {
    while true {
      if family.isDropped { throw CommitPipeline.droppedError(family) }
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
        let isDone = CompletionFlag()
        begin(reservation) { isDone.set() }
        background.executor.wait(until: { isDone.isSet })
        if let error = state.withLock({ $0.error }) { throw error }
      } else if isBlocked {
        try waitForOne()
      } else {
        return
      }
    }
  }

  private func waitForOne() throws(EngineError) {
    let before = state.withLock { $0.runningCount }
    background.executor.wait(until: { [self] in state.withLock { $0.runningCount < before || $0.runningCount == 0 } })
  }

  /// No compaction begins any more.
  func abandon() {
    state.withLock { state in
      state.isClosing = true
      state.changed = []
    }
  }

  /// No compaction begins any more; returns when those that run have ended.
  func stop() {
    abandon()
    background.executor.wait(until: { [self] in
      state.withLock { $0.runningCount == 0 && !$0.isPickScheduled }
    })
  }

  // MARK: - For the write controller

  /// Compaction bytes that are due and not done, over all families.
  func debtBytes() -> UInt64 {
    let total = background.registry.all.reduce(UInt64(0)) { $0 + picker.debtBytes($1.state.version) }
    let done = state.withLock { $0.progress.values.reduce(0, +) }
    return total - min(total, done)
  }

  var isRunning: Bool { state.withLock { $0.runningCount > 0 } }
}

extension CompactionScheduler.State {
  /// Whether a look at what changed may begin something.
  fileprivate func canPick(_ parallelism: Int) -> Bool {
    !changed.isEmpty && runningCount < parallelism && !isClosing
  }

  fileprivate var isIdle: Bool { changed.isEmpty && runningCount == 0 && !isPickScheduled }
}

/// A flag that one thread sets and another waits for.
final class CompletionFlag: Sendable {
  private let flag = Atomic<Bool>(false)
  var isSet: Bool { flag.load(ordering: .acquiring) }
  func set() { flag.store(true, ordering: .releasing) }
}
