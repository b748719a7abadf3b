internal import Synchronization

/// What happens behind the writers' backs: flushes, compactions, changes of families, the end.
///
/// # Concurrency
/// `state` is the one lock; jobs run outside it. One flush runs at a time, compactions as many as the
/// executor has threads for. A failed job is tried again after a pause that doubles; writers learn of it
/// when they would have to wait for it.
final class BackgroundWork: Sendable {
  let options: EngineOptions
  let tree: Tree
  let pipeline: CommitPipeline
  let registry: FamilyRegistry
  let epochs: ReadEpochs
  let snapshots: SnapshotList
  let executor: any BackgroundExecutor
  let counters = EngineCounters()
  let controller: WriteController
  private let pace = WritePace()
  private let obsolete: ObsoleteFiles
  private let scheduler = Mutex<CompactionScheduler?>(nil)
  private let state = Mutex(State())
  private let familyChanges = Mutex(())

  private static let firstRetryNanoseconds: UInt64 = 100_000_000
  private static let lastRetryNanoseconds: UInt64 = 5_000_000_000
  private static let tickNanoseconds: UInt64 = 50_000_000

  struct State: Sendable {
    var isFlushScheduled = false
    var retryNanoseconds: UInt64 = BackgroundWork.firstRetryNanoseconds
    var flushError: EngineError?
    var isTickScheduled = false
    var isClosing = false
  }

  init(
    options: EngineOptions, tree: Tree, pipeline: CommitPipeline, registry: FamilyRegistry, epochs: ReadEpochs,
    snapshots: SnapshotList, executor: any BackgroundExecutor, obsolete: ObsoleteFiles
  ) {
    self.options = options
    self.tree = tree
    self.pipeline = pipeline
    self.registry = registry
    self.epochs = epochs
    self.snapshots = snapshots
    self.executor = executor
    self.obsolete = obsolete
    controller = WriteController(options.controllerOptions)
    var pickerOptions = CompactionPickerOptions()
    pickerOptions.memtableSize = UInt64(options.memtableSize)
    let picker = LeveledCompactionPicker(options: pickerOptions)
    scheduler.withLock { $0 = CompactionScheduler(self, picker: picker) }
  }

  var compactions: CompactionScheduler {
    guard let found = scheduler.withLock({ $0 }) else { fatalError("the scheduler is made with its owner") }
    return found
  }

  /// Begins with what recovery left: frozen memtables, levels over their targets.
  func start() {
    pipeline.memory.onFreeze { [weak self] _ in
      self?.scheduleFlush()
      self?.updateController()
    }
    pipeline.log.prepareNext()
    scheduleFlush()
    compactions.didChange(registry.all.map(\.id))
  }

  var isClosing: Bool { state.withLock { $0.isClosing } }

  // MARK: - Flushes

  /// Has the frozen memtables flushed some time, unless that is under way.
  func scheduleFlush() {
    let shouldSubmit = state.withLock { state in
      guard !state.isFlushScheduled, !state.isClosing else { return false }
      state.isFlushScheduled = true
      return true
    }
    if shouldSubmit { executor.submit("flush", priority: .high) { [self] in runFlush() } }
  }

  /// Flushes one family, or one group that shares unlogged batches, and goes on while there are more.
  private func runFlush() {
    let inputs = nextFlush()
    guard !inputs.isEmpty else {
      state.withLock { $0.isFlushScheduled = false }
      // A memtable that was frozen between the look and the line before is not left behind.
      if !nextFlush().isEmpty { scheduleFlush() }
      executor.wakeWaiters()
      return
    }
    do throws(EngineError) {
      try FlushJob(inputs: inputs, background: self).run()
      state.withLock { state in
        state.flushError = nil
        state.retryNanoseconds = Self.firstRetryNanoseconds
      }
      epochs.poll()
      compactions.didChange(inputs.map(\.family.id))
      updateController()
      enforceLogBound()
      tree.cache.trimIfShrunk()
      executor.wakeWaiters()
      executor.submit("flush", priority: .high) { [self] in runFlush() }
    } catch {
      retryFlush(after: error)
    }
  }

  private func nextFlush() -> [FlushJob.Input] {
    pipeline.memory.betweenFreezes { FlushJob.nextInputs(registry) }
  }

  private func retryFlush(after error: EngineError) {
    let (pause, isClosing) = state.withLock { state in
      defer { state.retryNanoseconds = min(state.retryNanoseconds * 2, Self.lastRetryNanoseconds) }
      state.flushError = error
      if state.isClosing { state.isFlushScheduled = false }
      return (state.retryNanoseconds, state.isClosing)
    }
    pipeline.memory.didFail(error)
    executor.wakeWaiters()
    if !isClosing { executor.submit("flush.retry", after: pause) { [self] in runFlush() } }
  }

  /// Freezes every memtable that holds anything, and returns when all is in tables.
  func flushAll() throws(EngineError) {
    pipeline.lead { for family in registry.all { pipeline.memory.freeze(family.state) } }
    // What an earlier try met is no answer: the next one may find space.
    state.withLock { $0.flushError = nil }
    scheduleFlush()
    try waitForFlushes()
  }

  private func waitForFlushes() throws(EngineError) {
    executor.wait(until: { [self] in
      registry.all.allSatisfy { $0.state.frozen.isEmpty } || state.withLock { $0.flushError != nil }
    })
    if let error = state.withLock({ $0.flushError }) { throw error }
  }

  // MARK: - The bound of the log

  /// Freezes the families that keep the log's oldest segments where it is longer than its bound.
  func enforceLogBound() {
    guard pipeline.log.liveBytes > options.logBytesMaximum else { return }
    let oldest = pipeline.log.oldestNumber
    pipeline.leadIfFree {
      for family in registry.all where family.state.oldestSegment == oldest {
        pipeline.memory.freeze(family.state)
      }
    }
  }

  // MARK: - Families

  func createFamily(_ name: String, options: FamilyOptions) throws(EngineError) -> ColumnFamily {
    try familyChanges.withLock { (_) throws(EngineError) in
      guard registry.named(name) == nil else {
        throw EngineError(.alreadyExists, "a column family is named \"\(name)\" already", file: tree.directory)
      }
      guard registry.count < Limits.familyCountMaximum else {
        throw EngineError(.limitExceeded, "there are \(registry.count) column families, and no more are taken")
      }
      let id = tree.state.nextFamilyID
      let family = ColumnFamily(
        name: name, id: id,
        state: FamilyState(
          id: id, name: name, options: options, memTable: pipeline.memory.makeMemTable(), version: .empty,
          epochs: epochs, registry: registry))
      var edit = VersionEdit()
      edit.createFamily(id, name: name, options: options.encoded)
      // Durable before the first record that names it can be written.
      try tree.commit(edit)
      registry.add(family)
      return family
    }
  }

  func dropFamily(_ family: ColumnFamily) throws(EngineError) {
    try familyChanges.withLock { (_) throws(EngineError) in
      guard !family.state.isDropped else { throw CommitPipeline.droppedError(family.state) }
      var edit = VersionEdit()
      edit.droppedFamilies = [family.id]
      let frozen = try pipeline.lead { () throws(EngineError) in
        try tree.commit(edit)
        family.state.markDropped()
        registry.remove(family)
        return family.state.discardMemTables()
      }
      pipeline.memory.didFlush(frozen)
    }
  }

  // MARK: - Writers

  /// Slows a writer down where background work falls behind. Costs one load where it doesn't.
  @inline(__always)
  func delayWrite(bytes: Int) {
    if !controller.isFree { waitForPace(bytes) }
  }

  @inline(never)
  private func waitForPace(_ bytes: Int) {
    let delay = controller.delay(bytes: bytes, now: tree.environment.clock.now())
    // At the memory budget the commit itself waits, for memtables to be flushed.
    if delay != WriteController.stop { pace.wait(delay) }
  }

  /// Tells the write controller how far background work is behind.
  func updateController() {
    let families = registry.all
    let frozen = pipeline.memory.frozenSize
    controller.update(
      WriteController.Input(
        now: tree.environment.clock.now(), acceptedBytes: pipeline.acceptedBytes, debtBytes: compactions.debtBytes(),
        levelZeroDepth: Double(families.map { $0.state.version.levelZero.depth }.max() ?? 0),
        unflushedBytes: UInt64(frozen), frozenCount: families.reduce(0) { $0 + $1.state.frozen.count }))
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

  /// Returns when no flush and no compaction is due.
  func waitUntilIdle() throws(EngineError) {
    repeat {
      try waitForFlushes()
      executor.wait(until: { [self] in state.withLock { !$0.isFlushScheduled || $0.flushError != nil } })
      try compactions.waitUntilIdle()
    } while !registry.all.allSatisfy { $0.state.frozen.isEmpty }
  }

  // MARK: - Closing

  func drainAndClose() throws(EngineError) {
    var failure: EngineError?
    // What is not in the log would be lost: only a crash may do that.
    let hasUnlogged = pipeline.lead { registry.all.contains { $0.state.holdsUnlogged } }
    if hasUnlogged || pipeline.log.liveSegmentCount > 2 || pipeline.log.liveBytes > 4 * Limits.logSegmentSizeMinimum {
      do throws(EngineError) { try flushAll() } catch { failure = error }
    }
    state.withLock { $0.isClosing = true }
    executor.wait(until: { [self] in state.withLock { !$0.isFlushScheduled } })
    compactions.stop()
    obsolete.stop()
    do throws(EngineError) {
      try pipeline.lead { () throws(EngineError) in
        // A writer that began before the close, and waits behind it, must not store to what is unmapped.
        pipeline.poison(EngineError(.readOnly, "the engine was closed while the commit waited"))
        try pipeline.closeLog()
      }
      // The log ends here, and all of it is durable: a later open takes nothing less.
      let last = pipeline.log.current
      var edit = VersionEdit()
      // Also those that left no trace, so that none is given again.
      edit.lastSequence = pipeline.visible
      edit.logCuts = [.init(segment: last.number, lifeID: last.lifeID, endOffset: UInt64(last.tail))]
      try tree.commit(edit)
    } catch {
      failure = failure ?? error
    }
    if let failure { throw failure }
  }
}
