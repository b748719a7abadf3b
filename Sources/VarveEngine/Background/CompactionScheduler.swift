internal import Synchronization

/// Decides when compactions run, and how many run in parallel.
///
/// A family passes through three sets of `State`:
///
/// 1. `changed`: its tables changed. Its covered tables, which can be dropped unread, are not known yet.
/// 2. `examined`: its covered tables are known. Its next compaction has not been looked for yet.
/// 3. `due`: it has a compaction due, with its urgency.
///
/// One job, the picking job, takes families through the sets and starts the most urgent compaction, until no compaction
/// is due or every thread is busy. The job itself makes trivial moves, many in one edit. Every other compaction runs in
/// low-priority jobs of its own, divided by key range into as many parts as there are threads.
///
/// After a failed compaction its family is in none of the sets, even if it is flushed meanwhile, until the pause before
/// the retry is over, or `resume` or `waitUntilIdle` is called. The pause doubles with each failure. A compaction that
/// found damage is not retried: the damaged table is remembered (`SuspectTables`), and the other tables are compacted
/// without it. One that found no space is not retried after a pause, but when there is more (`CompactionSpace`).
///
/// # Concurrency
/// Safe from any thread; `state` is guarded by its mutex, and no file is accessed and no other component called while
/// it is held. `picking` makes choosing a compaction and reserving its tables one step, because the picking job and
/// callers of `compactManually` choose concurrently. No table is opened under it. Lock order: `picking`, `covered`,
/// `seeds`, `state`.
final class CompactionScheduler: Sendable {
  unowned let background: BackgroundWork
  let picker: LeveledCompactionPicker
  let picking = Mutex<Void>(())
  let state: Mutex<State>
  private let debt = Mutex(CompactionDebt())
  /// The known covered tables by family. An entry is removed while the picking job updates it.
  let covered = Mutex<[FamilyID: CoveredTables]>([:])
  /// The order in which tables of a level are picked, by family, remembered between picks.
  private let seeds = Mutex<[FamilyID: LevelSeeds]>([:])

  struct State: Sendable {
    /// A Boolean value that is false if only requested compactions run.
    let picksByItself: Bool
    /// Families whose tables changed, or for which old sequences were released.
    var changed: Set<FamilyID> = []
    /// Families that may have a compaction due, and whose covered tables are known.
    var examined: Set<FamilyID> = []
    /// Families that had a compaction due at the last check, and its urgency.
    var due: [FamilyID: Double] = [:]
    /// Families with tombstones that could be dropped if no reader retained an old sequence.
    var waiting: Set<FamilyID> = []
    /// Families whose last compaction failed and that wait for the retry.
    var failed: Set<FamilyID> = []
    /// Tables in which compactions found damage.
    var suspects = SuspectTables()
    /// A Boolean value that indicates whether a timer that retries the failed families is set.
    var isRetryPending = false
    var inProgress = CompactionsInProgress()
    var runningCount = 0
    var isPickScheduled = false
    var isClosing = false
    /// The error of the last compaction that failed or found damage, or `nil` if one has succeeded since, or `resume`
    /// or `waitUntilIdle` has cleared it.
    var error: EngineError?
    /// A Boolean value that indicates whether a compaction failed, for another reason than damage, since the last
    /// success.
    ///
    /// Unlike `error`, it is cleared only by a success, which is then reported as a recovery.
    var hasFailed = false
    var retryNanoseconds = CompactionScheduler.firstRetryNanoseconds
    /// The number of successful compactions.
    var successCount: UInt64 = 0
    /// Families without a recent flush. Their tables of level 0 are compacted without waiting for more tables of
    /// similar size.
    var settling: Set<FamilyID> = []
    /// The number of flushes, by which a timer detects new ones.
    var flushCount: UInt64 = 0
    var isIdleTimerSet = false
    /// Bytes that running compactions have already written.
    var progress: [CompactionsInProgress.Ticket: UInt64] = [:]
    var space = CompactionSpace()
  }

  /// The time without a flush after which families are settled.
  private static let idleNanoseconds: UInt64 = 1_000_000_000
  static let firstRetryNanoseconds: UInt64 = 100_000_000
  static let lastRetryNanoseconds: UInt64 = 5_000_000_000
  /// The maximum number of trivial moves in one edit. Each edit costs one sync, however many moves it has.
  private static let movesMaximum = 256

  init(_ background: BackgroundWork, picker: LeveledCompactionPicker) {
    self.background = background
    self.picker = picker
    state = Mutex(State(picksByItself: background.options.compactsInBackground))
  }

  // MARK: - Due work

  /// Notes that a family's tables changed.
  func didChange(_ families: some Sequence<FamilyID>) {
    noteDebt(families)
    // Failed families wait for their pause: a flush does not cause an attempt at once.
    state.withLock { state in
      for family in families where !state.failed.contains(family) { state.changed.insert(family) }
    }
    schedulePick()
  }

  /// Forgets a dropped family.
  func didDrop(_ family: FamilyID) {
    noteDebt(CollectionOfOne(family))
    state.withLock { state in
      state.changed.remove(family)
      state.examined.remove(family)
      state.due[family] = nil
      state.failed.remove(family)
      state.suspects.forget(family)
      state.settling.remove(family)
      state.waiting.remove(family)
      state.space.forget(family)
    }
    covered.withLock { $0[family] = nil }
    seeds.withLock { $0[family] = nil }
  }

  /// Notes that families were flushed. After a second without any flush, all families are settled.
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

  /// Begins with the tables that the database had when it was opened. They are settled like after a flush.
  func didOpen() {
    let families = background.registry.all.filter { !$0.state.version.isEmpty }.map(\.id)
    if !families.isEmpty { didFlush(families) }
  }

  private func setIdleTimer() {
    let count = state.withLock { $0.flushCount }
    background.executor.submit("compaction.idle", after: Self.idleNanoseconds) { [self] in
      // `nil` means that the engine is closing. The job then ends without access to any other part of the engine.
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

  /// Settles all families: their tables of level 0 are compacted without waiting for more tables of similar size.
  func settle() {
    let families = background.registry.all.map(\.id)
    state.withLock { $0.settling = Set(families) }
    didChange(families)
  }

  func schedulePick() {
    // While the engine closes, no compaction is chosen. A picking job would find none and submit the next job, again
    // and again until `stop`.
    if background.isClosing { return }
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
    // Changes between the last check and the line above must not be missed.
    schedulePick()
    background.executor.wakeWaiters()
  }

  /// Starts the most urgent compaction, or moves tables. Returns false if none is due or no thread is free.
  private func pickOne() -> Bool {
    guard state.withLock({ $0.canPick(background.executor.parallelism) }) else { return false }
    examineChanged()
    measureSpace()
    guard let first = reserve(mostUrgent) else { return false }
    if first.compaction.dropsInputs { return drop(first) }
    return first.compaction.isTrivialMove ? moveTables(from: first) : begin(first, whenDone: nil)
  }

  /// Returns the most urgent compaction of all families. Called under `picking`.
  private func mostUrgent() -> Compaction? {
    // The families are removed before the check, so that a change in the meantime inserts them again.
    for id in state.withLock({ $0.takeExamined() }) {
      let score = pick(id)?.score
      state.withLock { $0.due[id] = score }
    }
    while let id = state.withLock({ $0.takeMostUrgent() }) {
      guard let found = pick(id) else { continue }
      // The family may have more compactions due.
      state.withLock { _ = $0.examined.insert(id) }
      return found
    }
    return nil
  }

  private func pick(_ id: FamilyID) -> Compaction? {
    guard let family = background.registry.find(id), !family.isDropped else { return nil }
    if state.withLock({ $0.space.isStopped(id) }) { return nil }
    let input = input(family)
    if let found = dropping(input) ?? pick(family, input) { return found }
    waitForSpace(family, input)
    waitForSnapshots(input)
    return nil
  }

  func pick(_ family: FamilyState, _ input: LeveledCompactionPicker.Input) -> Compaction? {
    seeds.withLock { all in
      var known = all.removeValue(forKey: family.id) ?? LevelSeeds()
      defer { if !known.isEmpty, !family.isDropped { all[family.id] = known } }
      return picker.pick(input, &known)
    }
  }

  /// Returns the inputs for a pick of a family.
  ///
  /// Running compactions are read before the version: a compaction that ends in between still counts as running, and
  /// its tables, which the version no longer has, are not chosen again.
  func input(_ family: FamilyState) -> LeveledCompactionPicker.Input {
    let oldest = oldestSequence
    let (inProgress, isSettling, suspects, space) = state.withLock {
      ($0.inProgress, $0.settling.contains(family.id), $0.suspects.of(family.id), $0.available(to: family.id))
    }
    return LeveledCompactionPicker.Input(
      family: family.id, version: family.version, inProgress: inProgress, oldestSnapshot: oldest,
      isSettling: isSettling, suspects: suspects, space: space)
  }

  /// The lowest sequence that any reader sees, now or later.
  var oldestSequence: SequenceNumber { background.snapshots.oldest { background.pipeline.visible } }

  // MARK: - Running

  /// A compaction whose tables no other one can choose.
  struct Reservation {
    let compaction: Compaction
    let ticket: CompactionsInProgress.Ticket
  }

  func reserve(_ choose: () -> Compaction?) -> Reservation? {
    picking.withLock { _ in
      // `stop` waits for what was reserved before the engine began to close.
      guard !background.isClosing, let compaction = choose() else { return nil }
      let ticket = state.withLock { state in
        state.runningCount += 1
        let ticket = state.inProgress.begin(compaction)
        state.space.begin(compaction, ticket)
        return ticket
      }
      return Reservation(compaction: compaction, ticket: ticket)
    }
  }

  /// Starts a compaction or a move.
  @discardableResult
  func begin(_ reservation: Reservation, whenDone: (@Sendable (Result<Void, EngineError>) -> Void)?) -> Bool {
    let compaction = reservation.compaction
    let ticket = reservation.ticket
    if compaction.isTrivialMove {
      let result = commitMoves([reservation])
      whenDone?(result)
      if case .failure = result { return false }
      return true
    }
    let family = compaction.family
    CompactionJob(compaction, background: background) { [self] bytes in
      state.withLock { $0.progress[ticket, default: 0] += bytes }
    } whenDone: { [self] result in
      finish(family, ticket, result)
      whenDone?(result)
    }.start()
    return true
  }

  /// Moves tables as long as that is the most urgent work, and starts the next compaction.
  ///
  /// Returns false if the moves failed.
  private func moveTables(from first: Reservation) -> Bool {
    var moves = [first]
    var next: Reservation?
    while moves.count < Self.movesMaximum, next == nil, let found = reserve(mostUrgent) {
      if found.compaction.isTrivialMove { moves.append(found) } else { next = found }
    }
    let result = commitMoves(moves)
    if let next, next.compaction.dropsInputs { drop(next) } else if let next { begin(next, whenDone: nil) }
    if case .failure = result { return false }
    return true
  }

  private func commitMoves(_ moves: [Reservation]) -> Result<Void, EngineError> {
    let reports = moves.map { CompactionReport($0.compaction, background) }
    var edit = VersionEdit()
    for move in moves {
      let one = move.compaction.moveEdit()
      edit.deletedTables += one.deletedTables
      edit.addedTables += one.addedTables
    }
    var result: Result<Void, EngineError> = .success(())
    // A family that was dropped meanwhile has nothing to move; its tables are released with it.
    do throws(EngineError) { try background.tree.commit(edit) } catch { result = .failure(error) }
    for (move, report) in zip(moves, reports) {
      if case .success = result {
        background.metrics.counters.addMove()
        report.didWrite(move.compaction.inputTables, level: move.compaction.outputLevel)
      }
      report.end(result)
      finish(move.compaction.family, move.ticket, result)
    }
    return result
  }

  func finish(
    _ family: FamilyID, _ ticket: CompactionsInProgress.Ticket, _ result: Result<Void, EngineError>
  ) {
    // The replaced tables are released first, because a caller that waits for the end may check the files.
    background.epochs.poll()
    let suspect = suspect(family, result)
    if case .failure(let error) = result, error.code == .noSpace { measureSpace() }
    let hadFailed = state.withLock { state in
      let hadFailed = state.hasFailed
      state.finish(family, ticket, result, suspect)
      return hadFailed && !state.hasFailed
    }
    forgetGoneSuspects(of: family)
    if hadFailed { background.metrics.events.emit(.recovered(.compaction)) }
    noteDebt(CollectionOfOne(family))
    background.takeBackViews()
    background.tree.cache.trimIfShrunk()
    if case .failure(let error) = result, error.code != .canceled {
      background.metrics.counters.addFailure()
      if let suspect {
        reportDamage(suspect)
      } else {
        background.metrics.events.emit(.backgroundError(error, in: .compaction, refusesWrites: false))
        background.makeRoom(after: error)
        if error.code == .noSpace { pollSpaceLater() } else { retryLater() }
      }
    }
    background.updateController()
    // The count is decreased last: until then this thread may retain a version, and with it files that the next
    // compaction replaces.
    state.withLock { $0.runningCount -= 1 }
    schedulePick()
    background.executor.wakeWaiters()
  }

  // MARK: - For the write controller

  private func noteDebt(_ families: some Sequence<FamilyID>) { debt.withLock { $0.note(families) } }

  /// Returns the compaction bytes that are due and not done, the deepest level 0, and the bytes of all tables, over all
  /// families.
  ///
  /// Complexity: linear in the families that changed since the last call.
  func measureDebt() -> (debtBytes: UInt64, depth: Int, tableBytes: UInt64) {
    let suspects = state.withLock { $0.suspects }
    let (total, depth, size) = debt.withLock { debt in
      debt.refresh(picker, suspects: suspects) { background.registry.find($0)?.version }
      return (debt.bytes, debt.depth, debt.size)
    }
    // Work that no thread will do is not a reason to slow writers down.
    if !background.options.compactsInBackground { return (0, 0, size) }
    let done = state.withLock { $0.progress.values.reduce(0, +) }
    return (total - min(total, done), depth, size)
  }

  var isRunning: Bool { state.withLock { $0.runningCount > 0 } }

  /// A Boolean value that indicates whether compactions are running or due, and the last one has not failed. Those that
  /// wait for space don't count.
  var isProceeding: Bool {
    state.withLock { !$0.isIdle && $0.error == nil && ($0.runningCount > 0 || !$0.space.isWaiting) }
  }

  /// The number of successful compactions.
  var successCount: UInt64 { state.withLock { $0.successCount } }
}

extension CompactionScheduler.State {
  /// Returns whether picking may start a compaction.
  fileprivate func canPick(_ parallelism: Int) -> Bool {
    picksByItself && hasUnpicked && runningCount < parallelism && !isClosing
  }

  var isIdle: Bool {
    (!picksByItself || !hasUnpicked) && runningCount == 0 && !isPickScheduled
  }

  private var hasUnpicked: Bool { !(changed.isEmpty && examined.isEmpty && due.isEmpty) }

  fileprivate mutating func takeExamined() -> [FamilyID] {
    defer { examined.removeAll(keepingCapacity: examined.count < 64) }
    return examined.sorted()
  }

  /// Removes and returns the family with the highest score; of several with that score, the oldest.
  fileprivate mutating func takeMostUrgent() -> FamilyID? {
    let first = due.max { $0.value < $1.value || ($0.value == $1.value && $0.key > $1.key) }
    if let first { due[first.key] = nil }
    return first?.key
  }

  /// Notes the result of a compaction.
  ///
  /// A job canceled because the engine closes or the family was dropped does not count as failed.
  fileprivate mutating func finish(
    _ family: FamilyID, _ ticket: CompactionsInProgress.Ticket, _ result: Result<Void, EngineError>,
    _ suspect: SuspectTable?
  ) {
    inProgress.finish(ticket)
    let written = progress.removeValue(forKey: ticket) ?? 0
    let need = space.end(ticket)
    switch result {
    case .success:
      error = nil
      if !space.isWaiting { hasFailed = false }
      space.didSucceed(family)
      successCount += 1
      retryNanoseconds = CompactionScheduler.firstRetryNanoseconds
      failed.remove(family)
      if !isClosing { changed.insert(family) }
    case .failure(let failure) where failure.code != .canceled:
      if failure.code != .noSpace { error = failure }
      if let suspect {
        suspects.note(suspect)
        if !isClosing { changed.insert(family) }
        return
      }
      hasFailed = true
      // What needs no space is still done.
      if failure.code == .noSpace {
        space.noteFailure(of: family, need, written: written, failure)
        if !isClosing { changed.insert(family) }
        return
      }
      changed.remove(family)
      examined.remove(family)
      due[family] = nil
      failed.insert(family)
    case .failure: break
    }
  }
}
