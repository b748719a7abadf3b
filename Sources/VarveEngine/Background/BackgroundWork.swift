internal import Synchronization

/// Schedules flushes, compactions and family changes, and shuts them down at close.
///
/// # Concurrency
/// `state` is the only lock; jobs run outside it. One flush runs at a time, and as many compactions as the executor has
/// threads. A failed job is retried after a pause that doubles; writers get its error when they would have to wait for
/// it (`BackgroundWork+Resume`).
final class BackgroundWork: TableMaker {
  let options: EngineOptions
  private let currentPlan: Mutex<MemoryPlan>
  let tree: Tree
  let pipeline: CommitPipeline
  let registry: FamilyRegistry
  let epochs: ReadEpochs
  let snapshots: SnapshotList
  let executor: any BackgroundExecutor
  let metrics: EngineMetrics
  let cursors = OpenCursors()
  /// The writer of range tombstones over dead runs, or `nil` if dead runs stay as they are.
  let deadRuns: DeadRuns?
  let controller: WriteController
  private let pace = WritePace()
  let obsolete: ObsoleteFiles
  let reserve: SpaceReserve
  private let scheduler = Mutex<CompactionScheduler?>(nil)
  let state = Mutex(State())
  let familyChanges = Mutex(())
  private let endsLongWork = Atomic<Bool>(false)
  /// Whether compactions and checkpoints on request end early, because the engine is about to close.
  var endsRequests: Bool {
    get { endsLongWork.load(ordering: .relaxed) }
    set { endsLongWork.store(newValue, ordering: .relaxed) }
  }

  static let firstRetryNanoseconds: UInt64 = 100_000_000
  static let lastRetryNanoseconds: UInt64 = 5_000_000_000
  /// The maximum number of small memtables in one flush: its files are written and synced before any of them counts.
  private static let flushedFamiliesMaximum = 512
  private static let tickNanoseconds: UInt64 = 50_000_000
  /// The time between two steps of the cache's growth; see `MemoryBudget`.
  private static let cacheGrowthNanoseconds: UInt64 = 1_000_000_000
  /// The time after which log segments that readers in other processes kept are released, unless a flush does it.
  private static let readerPollNanoseconds: UInt64 = 1_000_000_000

  struct State: Sendable {
    var isFlushScheduled = false
    var retryNanoseconds: UInt64 = BackgroundWork.firstRetryNanoseconds
    var flushError: EngineError?
    /// A Boolean value that indicates whether the last flush failed, even if no caller waits for the error any more.
    var hasFlushFailed = false
    /// A Boolean value that indicates whether log segments may be free although no memtable was flushed.
    var isReleaseDue = false
    /// A Boolean value that indicates whether a failed flush waits to be retried, and the number of the current wait.
    var isRetryPending = false
    var retryNumber = 0
    /// The time at which the last flush failed, on the engine's clock.
    var failedAt: UInt64 = 0
    /// The free space after the last flush failed because there was none.
    var freeAtFailure: UInt64?
    /// A Boolean value that indicates whether a timer retries to accept commits.
    var isResumePending = false
    var resumeNanoseconds: UInt64 = BackgroundWork.firstRetryNanoseconds
    var isTickScheduled = false
    /// The time at which the write controller began to slow writers down, as reported to listeners.
    var pacedSince: UInt64?
    var isTrimScheduled = false
    /// A Boolean value that indicates whether a timer polls for the end of reads that retain objects, and one for
    /// obsolete files.
    var isPollScheduled = false
    var isReclaimScheduled = false
    var isCacheGrowthScheduled = false
    /// A Boolean value that indicates whether a timer releases the log segments that readers kept.
    var isReaderPollScheduled = false
    var isClosing = false
    /// A Boolean value that indicates whether there was no space for the log's next segment since the last flush.
    var isShortOfSpace = false
    /// A Boolean value that indicates whether a job makes the reserve, and one for the timer that looks at it.
    var isReserveDue = false
    /// The size of the database when its reserve was made.
    var reservedFor: UInt64 = 0
    var isReservePollSet = false
    /// The time of the last delete on a full disk, and whether a timer flushes after it.
    var lastDelete: UInt64 = 0
    var isDeleteFlushSet = false
    /// Whether memtables are flushed together with those that have the deletes over them, since a delete on a full
    /// disk.
    var flushesDeletes = false
    /// A Boolean value that indicates whether a timer looks at memtables with deletes, and what it found at the last
    /// look.
    var isDeleteLookSet = false
    var seenDeletes: [FamilyID: SeenDeletes] = [:]
  }

  init(
    options: EngineOptions, plan: MemoryPlan, tree: Tree, pipeline: CommitPipeline, registry: FamilyRegistry,
    epochs: ReadEpochs,
    snapshots: SnapshotList, executor: any BackgroundExecutor, obsolete: ObsoleteFiles, reserve: SpaceReserve,
    metrics: EngineMetrics
  ) {
    self.reserve = reserve
    self.metrics = metrics
    self.options = options
    currentPlan = Mutex(plan)
    self.tree = tree
    self.pipeline = pipeline
    self.registry = registry
    self.epochs = epochs
    self.snapshots = snapshots
    self.executor = executor
    self.obsolete = obsolete
    controller = WriteController(plan.controllerOptions)
    deadRuns =
      options.readOnly || options.deadRunMinimum == 0
      ? nil : DeadRuns(runMinimum: options.deadRunMinimum, pipeline, tree)
    let picker = LeveledCompactionPicker(
      options: plan.pickerOptions(threadCount: executor.parallelism, diskSize: tree.diskSize))
    scheduler.withLock { $0 = CompactionScheduler(self, picker: picker) }
    epochs.onDeferredRelease { [weak self] in self?.pollReadsLater() }
    obsolete.onKept { [weak self] in self?.reclaimLater() }
    obsolete.onRemoved { [weak self] in
      self?.lookAtReserve()
      self?.compactions.lookForSpace()
    }
  }

  var compactions: CompactionScheduler {
    // The scheduler is set by `init` and never reset.
    guard let found = scheduler.withLock({ $0 }) else { fatalError("the scheduler is made with its owner") }
    return found
  }

  var picker: LeveledCompactionPicker { compactions.picker }

  /// Starts background work, beginning with the work that recovery left: frozen memtables, levels over their targets.
  func start() {
    pipeline.memory.onFreeze { [weak self] in
      self?.scheduleFlush()
      self?.updateController()
    }
    pipeline.onRelease { [weak self] in
      self?.state.withLock { $0.isReleaseDue = true }
      self?.scheduleFlush()
    }
    pipeline.memory.onStarvation { [weak self] in self?.retryStaleFlush() }
    pipeline.onSpaceQuery(
      .init(
        isRunning: { [weak self] in self?.isRunning($0) ?? false },
        endedCompactionCount: { [weak self] in self?.compactions.successCount ?? 0 }))
    let memory = pipeline.memory
    pipeline.log.onReserveQuery { [weak memory] in memory?.unflushedSize ?? 0 }
    pipeline.log.didRunOutOfSpace.set { [weak self] in
      self?.state.withLock { $0.isShortOfSpace = true }
      self?.pipeline.noteShortage()
    }
    pipeline.log.didKeepForReaders.set { [weak self] in self?.releaseKeptLater() }
    pipeline.memory.onReaderWait { [weak self] in self?.takeBackViews() }
    pipeline.onRefusal { [weak self] in self?.resumeCommitsLater() }
    snapshots.onReached { [weak self] in self?.compactions.snapshotsWereReleased() }
    pipeline.betweenCommits { [weak self] in self?.deadRuns?.commitPending($0) }
    pipeline.memory.onGrowth { [weak self] in self?.scheduleTrim() }
    tree.budget.onRoom { [weak self] in self?.growCacheLater() }
    connectReserve()
    startLookingAtDeletes()
    pipeline.log.prepareNext()
    scheduleFlush()
    compactions.didOpen()
    startReserve()
  }

  /// The current division of the memory budget.
  var plan: MemoryPlan { currentPlan.withLock { $0 } }

  /// Changes the division of the memory. The shape of the tree and the log's segments stay as they were at open.
  func setPlan(_ plan: MemoryPlan) {
    currentPlan.withLock { $0 = plan }
    pipeline.memory.setPlan(plan)
    tree.openTables.setBounds(countMaximum: plan.openTableCount, bytesMaximum: plan.openTableBytes)
    tree.budget.setLimit(plan.limit, cacheFloor: plan.cacheFloor, cacheMaximum: plan.cacheMaximum)
    controller.setMemoryBudget(plan.controllerOptions.memoryBudget)
    pipeline.logBytesMaximum = plan.logBytesMaximum
  }

  /// Makes the heap return, in the background, the memory that the cache gave up for a memtable that grew.
  private func scheduleTrim() {
    guard tree.cache.hasShrunk else { return }
    let shouldSubmit = state.withLock { state in
      defer { state.isTrimScheduled = true }
      return !state.isTrimScheduled && !state.isClosing
    }
    guard shouldSubmit else { return }
    executor.submit("memory.trim", priority: .normal) { [self] in
      state.withLock { $0.isTrimScheduled = false }
      tree.cache.trimIfShrunk()
    }
  }

  /// Grows the cache into the memory that other parts gave back, in steps.
  private func growCacheLater() {
    let shouldSubmit = state.withLock { state in
      guard !state.isCacheGrowthScheduled, !state.isClosing else { return false }
      state.isCacheGrowthScheduled = true
      return true
    }
    guard shouldSubmit else { return }
    executor.submit("memory.grow", after: Self.cacheGrowthNanoseconds) { [self] in
      state.withLock { $0.isCacheGrowthScheduled = false }
      if !isClosing, tree.budget.growCache() { growCacheLater() }
    }
  }

  /// Releases the log segments that readers in other processes have kept, once they may be free.
  private func releaseKeptLater() {
    let shouldSubmit = state.withLock { state in
      guard !state.isReaderPollScheduled, !state.isClosing else { return false }
      state.isReaderPollScheduled = true
      return true
    }
    guard shouldSubmit else { return }
    executor.submit("log.release", after: Self.readerPollNanoseconds) { [self] in
      state.withLock { $0.isReaderPollScheduled = false }
      pipeline.requestRelease()
    }
  }

  var isClosing: Bool { state.withLock { $0.isClosing } }

  // MARK: - Flushes

  /// Schedules a flush of the frozen memtables, unless one is scheduled already.
  func scheduleFlush() {
    let shouldSubmit = state.withLock { state in
      guard !state.isFlushScheduled, !state.isClosing else { return false }
      state.isFlushScheduled = true
      return true
    }
    if shouldSubmit { executor.submit("flush", priority: .high) { [self] in runFlush() } }
  }

  /// Flushes one family, or one group that shares unlogged batches, and continues while there are more.
  func runFlush() {
    var inputs = nextFlush()
    let isReleaseDue = state.withLock { state in
      defer { state.isReleaseDue = false }
      return state.isReleaseDue
    }
    guard !inputs.isEmpty || isReleaseDue else {
      state.withLock { $0.isFlushScheduled = false }
      // Memtables frozen between the check and the line above must not be missed.
      if !nextFlush().isEmpty || state.withLock({ $0.isReleaseDue }) {
        scheduleFlush()
      } else {
        pipeline.memory.trimPool()
      }
      executor.wakeWaiters()
      return
    }
    do throws(EngineError) {
      try FlushJob(inputs: inputs, background: self).runMeasured()
      let hadFailed = state.withLock { state in
        defer { state.hasFlushFailed = false }
        state.flushError = nil
        state.retryNanoseconds = Self.firstRetryNanoseconds
        return state.hasFlushFailed
      }
      if hadFailed { metrics.events.emit(.recovered(.flush)) }
      let families = inputs.map(\.family.id)
      // The memtables are released first, because writers may wait for that.
      inputs = []
      epochs.poll()
      compactions.didFlush(families)
      settleIfShort()
      takeBackViews()
      updateController()
      enforceLogBound()
      tree.cache.trimIfShrunk()
      if !endsFlushing() { executor.submit("flush", priority: .high) { [self] in runFlush() } }
      executor.wakeWaiters()
    } catch {
      if isReleaseDue { state.withLock { $0.isReleaseDue = true } }
      retryFlush(after: error)
    }
  }

  /// Returns whether flushes end here although more may be due, because a close leaves small memtables to the log.
  ///
  /// They continue for large ones, because writers may be waiting for those.
  private func endsFlushing() -> Bool {
    let isLittle = pipeline.memory.frozenSize <= plan.memtableSize / 4
    return state.withLock { state in
      guard state.isClosing, isLittle else { return false }
      state.isFlushScheduled = false
      return true
    }
  }

  private func nextFlush() -> [FlushJob.Input] {
    let (hasFailed, hasDeleted) = state.withLock { ($0.hasFlushFailed, $0.flushesDeletes) }
    let limits: FlushJob.Limits =
      if hasDeleted && reserve.isExhausted {
        .deletes
      } else if hasFailed {
        .one
      } else {
        FlushJob.Limits(bytes: plan.memtableSize / 4, families: Self.flushedFamiliesMaximum)
      }
    return pipeline.memory.betweenFreezes { FlushJob.nextInputs(registry, limits) }
  }

  /// Freezes every memtable with entries, and returns when all are in tables.
  func flushAll(includingVolatile: Bool = true) throws(EngineError) {
    pipeline.lead { pipeline.memory.freezeAll(registry, includingVolatile: includingVolatile, $0) }
    retryFlushNow()
    scheduleFlush()
    try waitForFlushes()
  }

  func waitForFlushes() throws(EngineError) {
    // The condition is checked after each job: only families that had frozen memtables at the last check are checked
    // again.
    let waiting = Mutex(registry.all.filter { !$0.state.frozen.isEmpty })
    executor.wait(until: { [self] in
      waiting.withLock { waiting in
        while let last = waiting.last, last.state.frozen.isEmpty { waiting.removeLast() }
        return waiting.isEmpty
      } || state.withLock { $0.flushError != nil || ($0.isClosing && !$0.isFlushScheduled) }
    })
    if let error = state.withLock({ $0.flushError }) { throw error }
    guard waiting.withLock({ $0.isEmpty }) else {
      throw EngineError(.canceled, "the engine was closed while memtables waited to be flushed")
    }
  }

  // MARK: - The bound of the log

  /// Frees the oldest log segments if the log exceeds its bound.
  func enforceLogBound() {
    guard pipeline.log.neededBytes > plan.logBytesMaximum else { return }
    pipeline.leadIfFree { pipeline.enforceLogBound($0) }
  }

  // MARK: - Writers

  /// Slows a writer down if background work is late. Otherwise it costs one load.
  @inline(__always)
  func delayWrite(bytes: Int) {
    if !controller.isFree { waitForPace(bytes) }
  }

  @inline(never)
  private func waitForPace(_ bytes: Int) {
    let delay = controller.delay(bytes: bytes, now: tree.environment.clock.now())
    // An unpaced commit waits for a flush when its memtable is full.
    if delay != WriteController.unpaced { pace.wait(delay, tree.environment.clock, metrics.writeController) }
  }

  /// Passes the amount of pending background work to the write controller.
  func updateController() {
    let debt = compactions.measureDebt()
    controller.update(
      WriteController.Input(
        now: tree.environment.clock.now(), acceptedBytes: pipeline.acceptedBytes, debtBytes: debt.debtBytes,
        levelZeroDepth: Double(debt.depth), unflushedBytes: UInt64(pipeline.memory.frozenSize)))
    reportPacing()
    growReserve()
    guard !controller.isFree, !isClosing else { return }
    let isFirst = state.withLock { state in
      defer { state.isTickScheduled = true }
      return !state.isTickScheduled
    }
    guard isFirst else { return }
    executor.submit("controller", after: Self.tickNanoseconds) { [self] in
      state.withLock { $0.isTickScheduled = false }
      updateController()
    }
  }

  /// Notifies listeners when the controller starts and stops slowing writers down.
  private func reportPacing() {
    let isPacing = !controller.isFree
    let now = metrics.clock.now()
    let since = state.withLock { state -> UInt64? in
      guard isPacing != (state.pacedSince != nil) else { return nil }
      defer { state.pacedSince = isPacing ? now : nil }
      return state.pacedSince ?? now
    }
    guard let since else { return }
    metrics.events.emit(
      isPacing ? .stallBegan(.writeController) : .stallEnded(.writeController, nanoseconds: now - min(since, now)))
  }

  /// Returns when no flush or compaction is due, and obsolete files are removed.
  func waitUntilIdle() throws(EngineError) {
    repeat {
      try waitForFlushes()
      executor.wait(until: { [self] in state.withLock { !$0.isFlushScheduled || $0.flushError != nil } })
      try compactions.waitUntilIdle()
    } while !registry.all.allSatisfy { $0.state.frozen.isEmpty }
    waitForRemovals()
  }

  /// Returns when the files of replaced tables that no reader retains are removed.
  func waitForRemovals() {
    // A replaced view that a read retains also keeps files.
    epochs.poll()
    executor.wait(until: { [self] in obsolete.isIdle })
  }

  // MARK: - Closing

  /// The cost of a table at close, in bytes of the log whose replay costs the next open as much: a file, its sync and
  /// its part of the MANIFEST take about half a millisecond, and replay reads 300 MB of the log per second.
  private static let tableCostBytes = 128 << 10

  /// Flushes the entries that are not in the log, and those that are only there if replaying them would cost more.
  ///
  /// The cost of a replay at the next open is compared with that of a flush in this close. Small remainders are
  /// gathered in one small segment.
  private func settleMemTables() throws(EngineError) {
    // Entries that are not in the log would be lost, which only a crash may cause.
    try flushUnlogged()
    let size = pipeline.log.neededBytes
    if size <= 4 * Limits.logSegmentSizeMinimum, pipeline.lead({ pipeline.gatherLog($0) }) { return }
    let tableCount = registry.all.count { $0.state.oldestSegment != nil }
    guard size > tableCount * Self.tableCostBytes else { return }
    do throws(EngineError) { try flushAll(includingVolatile: false) } catch {
      // On a full disk the log keeps them.
      guard reserve.isExhausted, error.code == .noSpace else { throw error }
    }
  }

  private func flushUnlogged() throws(EngineError) {
    let hasUnlogged = pipeline.lead { lead in
      // Freezing the first family freezes the others with it.
      for family in registry.all where family.state.hasUnlogged(lead) { pipeline.memory.freeze(family.state, lead) }
      return registry.all.contains { $0.state.holdsUnlogged(lead) }
    }
    guard hasUnlogged else { return }
    retryFlushNow()
    scheduleFlush()
    try waitForFlushes()
  }

  func drainAndClose() throws(EngineError) {
    var failure: EngineError?
    deadRuns?.stop()
    do throws(EngineError) { try settleMemTables() } catch { failure = error }
    state.withLock { $0.isClosing = true }
    // A flush that waits for its retry was retried above.
    if takeRetry(where: { _ in true }) { state.withLock { $0.isFlushScheduled = false } }
    executor.wait(until: { [self] in state.withLock { !$0.isFlushScheduled } })
    compactions.stop()
    // On a full disk the next open may need the space of these files before it removes what this one leaves.
    if reserve.isExhausted { waitForRemovals() }
    obsolete.stop()
    do throws(EngineError) { try closeLog() } catch { failure = failure ?? error }
    if let failure { throw failure }
  }

  private func closeLog() throws(EngineError) {
    let last = try pipeline.lead { (lead) throws(EngineError) in
      // A writer that began before the close and waits for the lead must not store to unmapped memory.
      defer { pipeline.poison(EngineError(.readOnly, "the engine was closed while the commit waited"), isFinal: true) }
      if pipeline.refusal?.passes == true { try pipeline.resumeCommits(lead) }
      try pipeline.closeLog(lead)
      return pipeline.log.current(lead)
    }
    // The log ends here and is durable, so a later open must not accept less.
    let oldest = registry.all.compactMap(\.state.oldestSegment).min() ?? last.number
    var edit = VersionEdit()
    // The edit includes sequences that left no entry, so that none is assigned again.
    edit.lastSequence = pipeline.visible
    edit.logCuts = [.init(segment: last.number, lifeID: last.lifeID, endOffset: UInt64(last.tail))]
    if oldest > tree.state.oldestLog { edit.oldestLog = oldest }
    try tree.commit(edit)
    pipeline.log.removeClosed(before: oldest)
    // The next open would remove them as well, but until then no process could read them.
    tree.removeTables(tree.state.volatileTables)
    tree.rollForClose()
    keepReserve()
  }

  /// Starts no more work, and cancels what can be canceled, because the engine was released without being closed.
  func abandon() {
    state.withLock { $0.isClosing = true }
    deadRuns?.stop()
    compactions.abandon()
    obsolete.stop()
  }
}
