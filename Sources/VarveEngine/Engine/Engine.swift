internal import CVarve
internal import Synchronization

/// A database: a log-structured merge-tree of byte strings in a directory of its own.
///
/// ```swift
/// let engine = try Engine.open(at: "/tmp/example.varve")
/// try engine.put(Array("key".utf8), Array("value".utf8))
/// let value = try engine.get(Array("key".utf8))
/// try engine.close()
/// ```
///
/// Keys and values are byte strings; keys sort as unsigned bytes. Every call is synchronous, and safe
/// from any thread. One engine at a time has a database open for writing.
///
/// The `Durability` of a commit says what the commit survives; by default the end of the process. No acknowledged
/// commit is lost.
///
/// While an engine is open, its directory may be renamed, and the working directory of the process may change: files
/// are found by a descriptor of the directory. A child that the process makes by `fork` can't use the engine: calls
/// throw `.closed` there. It can open other databases.
///
/// Close the engine when you are done. An engine deallocated without `close` behaves as if the process had ended: no
/// acknowledged commit is lost, and the next open replays the log. After `close` calls that throw throw `.closed`.
public final class Engine: Sendable {
  /// Where the database is.
  public let path: String
  /// How it was opened.
  public let options: EngineOptions
  let environment: EngineEnvironment
  /// The memory of the trees of small indexed batches, for the next ones.
  let batchArenas: ArenaPool
  let executor: any BackgroundExecutor
  let registry: FamilyRegistry
  let epochs: ReadEpochs
  let snapshots: SnapshotList
  let tree: Tree
  let pipeline: CommitPipeline
  let background: BackgroundWork
  let fileLock: (any FileLock)?
  /// What keeps reads together while another process changes the views; nil where nobody does.
  let views: FollowedViews?
  private let defaultState: ColumnFamily
  private let isClosed = Atomic<Bool>(false)
  /// What `cvarve_fork_count` was when the engine was made: in a forked child it is another number.
  private let forkCount: UInt32
  let timers: CommitTimers
  let watch: EngineWatch
  /// Where the calls of `async` run.
  let callThreads: CallThreads

  /// The memory that an engine keeps for the trees of the next batches that can be read: of some dozen small ones.
  private static let batchArenaBytesMaximum = 1 << 20

  init(_ parts: OpenedParts) {
    cvarve_watch_forks()
    forkCount = cvarve_fork_count()
    path = parts.path
    options = parts.options
    environment = parts.environment
    batchArenas = ArenaPool(limit: Self.batchArenaBytesMaximum, account: parts.tree.budget.account(.other))
    executor = parts.executor
    registry = parts.registry
    epochs = parts.epochs
    snapshots = parts.snapshots
    tree = parts.tree
    pipeline = parts.pipeline
    background = parts.background
    fileLock = parts.fileLock
    views = parts.views
    defaultState = parts.defaultFamily
    timers = CommitTimers(parts.pipeline, parts.executor, parts.environment.clock)
    callThreads = CallThreads(countMaximum: Limits.callThreadCountMaximum)
    watch = EngineWatch(parts.background)
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

  /// The family that is always there, named `default`, for programs that need only one.
  public var defaultFamily: ColumnFamily { defaultState }

  /// The last commit that reads see.
  public var visibleSequence: SequenceNumber {
    checkOpen()
    return pipeline.visible
  }

  /// Whether this process is a child of the one that opened the engine, made by `fork`.
  var isForked: Bool { forkCount != cvarve_fork_count() }

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

  /// The state of a family, which must be this engine's.
  @inline(__always)
  func state(of family: ColumnFamily?) -> FamilyState {
    guard let family else { return defaultState.state }
    guard family.state.registry === registry else {
      fatalError("column family \"\(family.name)\" belongs to another engine; use the engine that gave it out")
    }
    return family.state
  }

  // MARK: - Families

  /// All families, in the order of their creation.
  public var families: [ColumnFamily] {
    checkOpen()
    return registry.all
  }

  /// The family with a name. Throws `.unknownFamily`.
  public func family(named name: String) throws(EngineError) -> ColumnFamily {
    try requireOpen()
    guard let family = registry.named(name) else {
      throw EngineError(.unknownFamily, "no column family is named \"\(name)\"", file: path)
    }
    return family
  }

  /// Makes a family, durable before it can be written to.
  ///
  /// Throws `.alreadyExists`, `.invalidArgument` for an empty or too long name, and `.limitExceeded`
  /// above 10,000 families.
  public func createFamily(
    _ name: String, options familyOptions: FamilyOptions = FamilyOptions()
  ) throws(EngineError) -> ColumnFamily {
    try createFamilies([name], options: familyOptions)[0]
  }

  /// Makes several families at once, in the order of their names: all of them, or none where this throws.
  ///
  /// Each call is one durable change, so many families are made faster by one call than one by one.
  /// Throws as `createFamily` does; `.alreadyExists` also for a name that is there twice.
  /// Complexity: O(n) and one sync.
  public func createFamilies(
    _ names: [String], options familyOptions: FamilyOptions = FamilyOptions()
  ) throws(EngineError) -> [ColumnFamily] {
    try requireOpen()
    try requireWritable()
    for name in names where name.isEmpty || name.utf8.count > Limits.familyNameSizeMaximum {
      throw EngineError(
        .invalidArgument,
        "a family's name has 1 to \(Limits.familyNameSizeMaximum) bytes; this one has \(name.utf8.count)")
    }
    try options.validate(familyOptions)
    return try background.createFamilies(names, options: familyOptions)
  }

  /// Changes the options of a family, while it is read and written. Durable when it returns.
  ///
  /// A size of memtables counts from the family's next memtable on, a compression from the next table; what is there
  /// stays as it is until it is compacted. Throws `.invalidArgument` where the merge operator or the volatility
  /// differs, which can't be changed, or a size is out of its range; `.familyDropped`; and what writing met: the old
  /// options stay in force then. Safe from any thread. Complexity: one sync.
  public func setOptions(_ familyOptions: FamilyOptions, of family: ColumnFamily) throws(EngineError) {
    try requireOpen()
    try requireWritable()
    let state = state(of: family)
    try options.validate(familyOptions)
    try background.setOptions(familyOptions, of: state)
  }

  /// Whether the engine was not closed yet, nor inherited by a forked child.
  var isOpen: Bool { !isClosed.load(ordering: .relaxed) && !isForked }

  /// Drops a family with all its entries, at once and without reading them.
  ///
  /// Open cursors continue; new reads and writes throw `.familyDropped`. The default family cannot be dropped.
  public func dropFamily(_ family: ColumnFamily) throws(EngineError) {
    try requireOpen()
    try requireWritable()
    _ = state(of: family)
    guard family.id != .default else { throw EngineError(.invalidArgument, "the default family can't be dropped") }
    try background.dropFamily(family)
  }

  func requireWritable() throws(EngineError) {
    if options.readOnly { throw EngineError(.readOnly, "the engine was opened read-only", file: path) }
  }

  // MARK: - Closing

  /// Closes the engine: waits for the background work, makes all commits durable, and releases the lock. Release
  /// snapshots and cursors before. A second call does nothing.
  ///
  /// Entries that are not in tables can stay in the log for the next open to replay, if that costs less than writing
  /// tables: at most 128 KiB of log for each family with such entries, and one small segment. Entries that were never
  /// logged are written to tables.
  ///
  /// Throws the error of the last sync; the engine is closed in any case. In a child made by `fork` it throws `.closed`
  /// and does nothing.
  public func close() throws(EngineError) {
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
