internal import CVarve
internal import Synchronization

/// The implementation of an open engine; `Engine` is its public API.
///
/// # Ownership
/// Indexed batches, transactions, tickets and table writers retain the core. So the database is open, and they can be
/// used, until `Engine` and the last of them are released. Cursors and snapshots retain what they read, but not the
/// core. Background jobs must not retain it: its deinitializer waits for their threads.
///
/// # Shutdown
/// The engine is shut down by `close`, or by the release of the last reference, which has the effect of the end of the
/// process.
///
/// Safe from any thread.
final class EngineCore: Sendable {
  let options: EngineOptions
  let registry: FamilyRegistry
  let epochs: ReadEpochs
  let snapshots: SnapshotList
  let tree: Tree
  let pipeline: CommitPipeline
  let background: BackgroundWork
  /// The family that always exists.
  let defaultFamily: ColumnFamily
  /// The lock of the database, or `nil` in a read-only engine.
  let fileLock: (any FileLock)?
  /// An object that keeps reads consistent while another process changes the views, or `nil` if no process does.
  let views: FollowedViews?
  /// Memory for the trees of small indexed batches, for reuse.
  let batchArenas: ArenaPool
  let timers: CommitTimers
  let watch: EngineWatch
  /// The requests of other processes, or `nil` if the engine takes none.
  let inbox: EngineInbox?
  /// The threads that run the calls of `async`.
  let callThreads = CallThreads(countMaximum: Limits.callThreadCountMaximum)
  let syncThread = CallThreads(countMaximum: 1)
  let syncWaiters = SyncWaiters()
  private let isClosed = Atomic<Bool>(false)
  /// The value of `cvarve_fork_count` when the engine was created: it differs in a forked child.
  private let forkCount: UInt32

  /// The memory kept for the trees of later indexed batches: enough for a few dozen small ones, or one with a few
  /// thousand entries.
  private static let batchArenaBytesMaximum = 2 << 20

  /// Creates an engine and starts its background work, unless it is read-only.
  init(
    _ background: BackgroundWork, defaultFamily: ColumnFamily, fileLock: (any FileLock)?, views: FollowedViews?
  ) {
    cvarve_watch_forks()
    forkCount = cvarve_fork_count()
    options = background.options
    registry = background.registry
    epochs = background.epochs
    snapshots = background.snapshots
    tree = background.tree
    pipeline = background.pipeline
    self.background = background
    self.defaultFamily = defaultFamily
    self.fileLock = fileLock
    self.views = views
    batchArenas = ArenaPool(limit: Self.batchArenaBytesMaximum, account: tree.budget.account(.other))
    timers = CommitTimers(pipeline, background.executor, tree.environment.clock)
    watch = EngineWatch(background)
    inbox = EngineInbox(background)
    if options.readOnly { return }
    background.start()
    startInbox()
  }

  deinit {
    // A forked child does not have the threads, and must not write anything.
    if !isClosed.load(ordering: .relaxed), !isForked { abandon() }
    registry.removeAll()
  }

  /// Shuts down with the effect of the end of the process: acknowledged commits are in the log.
  ///
  /// The threads end before the lock is released; otherwise they would write into files that another engine opens.
  private func abandon() {
    inbox?.stop()
    callThreads.shutDown()
    syncThread.shutDown()
    timers.stop()
    watch.stop()
    background.abandon()
    executor.shutDown()
    background.metrics.events.finish()
    watch.removePublished()
    epochs.poll()
    tree.close()
    fileLock?.release()
  }

  /// The path of the database.
  var path: String { tree.directory }
  var environment: EngineEnvironment { tree.environment }
  var executor: any BackgroundExecutor { background.executor }

  /// Returns the state of a family, which must belong to this engine.
  @inline(__always)
  func state(of family: ColumnFamily?) -> FamilyState {
    guard let family else { return defaultFamily.state }
    guard family.state.registry === registry else {
      fatalError("column family \"\(family.name)\" belongs to another engine; use the engine that gave it out")
    }
    return family.state
  }

  func requireWritable() throws(EngineError) {
    if options.readOnly { throw EngineError(.readOnly, "the engine was opened read-only", file: path) }
  }

  // MARK: - Open and closed

  /// A Boolean value that indicates whether this process is a child, made by `fork`, of the one that opened the engine.
  private var isForked: Bool { forkCount != cvarve_fork_count() }

  /// A Boolean value that indicates whether the engine is neither closed nor inherited by a forked child.
  var isOpen: Bool { !isClosed.load(ordering: .relaxed) && !isForked }

  /// Throws `.closed` if the engine was closed, and in a forked child.
  @inline(__always)
  func requireOpen() throws(EngineError) {
    guard !isClosed.load(ordering: .relaxed), forkCount == cvarve_fork_count() else { throw closedError }
  }

  private var closedError: EngineError {
    if isForked {
      return EngineError(
        .closed, "the engine was opened by the process that forked this one; open the database in this process",
        file: path)
    }
    return EngineError(.closed, "the engine was closed", file: path)
  }

  /// Stops the process if the engine was closed. For calls that can't throw: the caller must keep the engine open.
  @inline(__always)
  func checkOpen() {
    guard !isClosed.load(ordering: .relaxed), forkCount == cvarve_fork_count() else { stopAsClosed() }
  }

  @inline(never)
  private func stopAsClosed() -> Never {
    fatalError("\(closedError); keep it open as long as anything uses it")
  }

  /// The implementation of `Engine.close`.
  func close() throws(EngineError) {
    if isForked { throw closedError }
    // The calls of tasks end first, because calls that have begun may still use the engine.
    inbox?.stop()
    callThreads.shutDown()
    syncThread.shutDown()
    guard !isClosed.exchange(true, ordering: .sequentiallyConsistent) else { return }
    timers.stop()
    watch.stop()
    defer {
      executor.shutDown()
      background.metrics.events.finish()
      watch.removePublished()
      releaseMemory()
      fileLock?.release()
    }
    if options.readOnly { return }
    try background.drainAndClose()
  }

  /// Releases the memory that cursors don't retain now, rather than with the last reference to the engine.
  private func releaseMemory() {
    pipeline.lead { lead in
      for family in registry.all { family.state.close(pipeline.memory.empty, lead) }
    }
    tree.close()
    epochs.poll()
    pipeline.memory.close()
    batchArenas.setLimit(0)
    tree.cache.setCapacity(0)
  }
}
