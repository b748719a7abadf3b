internal import CVarve
internal import Synchronization

/// What an open engine is made of; `Engine` is its public API.
///
/// # Who keeps it
/// Batches that can be read, transactions, tickets and writers of tables keep the core. So the database is open, and
/// they can be used, until `Engine` and the last of them are released. Cursors and snapshots keep what they read, and
/// not the core. Jobs in the background must not keep it: its end waits for their threads.
///
/// # The end
/// `close`, or the release of the last reference, which does what the end of the process would do.
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
  /// The family that is always there.
  let defaultFamily: ColumnFamily
  /// Nil in an engine that writes nothing.
  let fileLock: (any FileLock)?
  /// What keeps reads together while another process changes the views; nil where no process does.
  let views: FollowedViews?
  /// The memory of the trees of small indexed batches, for the next ones.
  let batchArenas: ArenaPool
  let timers: CommitTimers
  let watch: EngineWatch
  /// Where the calls of `async` run.
  let callThreads = CallThreads(countMaximum: Limits.callThreadCountMaximum)
  private let isClosed = Atomic<Bool>(false)
  /// What `cvarve_fork_count` was when the engine was made: in a forked child it is another number.
  private let forkCount: UInt32

  /// The memory that an engine keeps for the trees of the next batches that can be read: of some dozen small ones, or of
  /// one with some thousand entries.
  private static let batchArenaBytesMaximum = 2 << 20

  /// Puts an engine together and starts its background work, unless it is read-only.
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
    if !options.readOnly { background.start() }
  }

  deinit {
    // In a forked child the threads are not there, and nothing may be written.
    if !isClosed.load(ordering: .relaxed), !isForked { abandon() }
    registry.removeAll()
  }

  /// What the end of the process would do: what was acknowledged is in the log. But the threads end before
  /// the lock is given back, or they would write into what another engine opens.
  private func abandon() {
    callThreads.shutDown()
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

  /// Where the database is.
  var path: String { tree.directory }
  var environment: EngineEnvironment { tree.environment }
  var executor: any BackgroundExecutor { background.executor }

  /// The state of a family, which must be this engine's.
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

  /// Whether this process is a child of the one that opened the engine, made by `fork`.
  private var isForked: Bool { forkCount != cvarve_fork_count() }

  /// Whether the engine was not closed yet, nor inherited by a forked child.
  var isOpen: Bool { !isClosed.load(ordering: .relaxed) && !isForked }

  /// Throws `.closed` where the engine was closed, and in a forked child.
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

  /// Stops the process where the engine was closed, for what can't throw: the caller is to keep it open.
  @inline(__always)
  func checkOpen() {
    guard !isClosed.load(ordering: .relaxed), forkCount == cvarve_fork_count() else { stopAsClosed() }
  }

  @inline(never)
  private func stopAsClosed() -> Never {
    fatalError("\(closedError); keep it open as long as anything uses it")
  }

  /// See `Engine.close`.
  func close() throws(EngineError) {
    if isForked { throw closedError }
    // First: those that have begun may still use the engine.
    callThreads.shutDown()
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

  /// What cursors don't hold goes now, not with the last reference to the engine.
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
