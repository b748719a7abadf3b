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
/// What a commit survives is its `Durability`; by default the death of the process. Nothing that was
/// acknowledged is lost.
///
/// Close an engine when it is done with. One that goes without ends as its process would: no acknowledged
/// commit is lost, and the next open has the log to replay.
public final class Engine: Sendable {
  /// Where the database is.
  public let path: String
  /// How it was opened.
  public let options: EngineOptions
  let environment: EngineEnvironment
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
  let timers: CommitTimers
  let watch: EngineWatch
  /// Where the calls of `async` run.
  let callThreads: CallThreads

  init(_ parts: OpenedParts) {
    path = parts.path
    options = parts.options
    environment = parts.environment
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
    timers = CommitTimers(parts.pipeline, parts.executor)
    callThreads = CallThreads(countMaximum: Limits.callThreadCountMaximum)
    watch = EngineWatch(parts.background)
    if !options.readOnly { background.start() }
  }

  deinit {
    if !isClosed.load(ordering: .relaxed) { abandon() }
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

  /// Stops the process where the engine was closed: whatever the caller wanted can't happen any more.
  @inline(__always)
  func checkOpen() {
    guard !isClosed.load(ordering: .relaxed) else { Self.useAfterClose(path) }
  }

  @inline(never)
  private static func useAfterClose(_ path: String) -> Never {
    fatalError("the engine at \(path) was closed; keep it open as long as anything uses it")
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
    checkOpen()
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
    checkOpen()
    try requireWritable()
    for name in names where name.isEmpty || name.utf8.count > Limits.familyNameSizeMaximum {
      throw EngineError(
        .invalidArgument,
        "a family's name has 1 to \(Limits.familyNameSizeMaximum) bytes; this one has \(name.utf8.count)")
    }
    try options.validate(familyOptions)
    return try background.createFamilies(names, options: familyOptions)
  }

  /// Drops a family with all it holds, at once and without reading it.
  ///
  /// Open cursors go on; new reads and writes throw `.familyDropped`. The default family stays.
  public func dropFamily(_ family: ColumnFamily) throws(EngineError) {
    checkOpen()
    try requireWritable()
    _ = state(of: family)
    guard family.id != .default else { throw EngineError(.invalidArgument, "the default family can't be dropped") }
    try background.dropFamily(family)
  }

  func requireWritable() throws(EngineError) {
    if options.readOnly { throw EngineError(.readOnly, "the engine was opened read-only", file: path) }
  }

  // MARK: - Closing

  /// Ends the engine: waits for the background work, makes everything durable, the end of the log included,
  /// and gives the lock back. Snapshots and cursors must be gone. A second call does nothing.
  ///
  /// What is not in tables may stay in the log, for the next open to replay, where that costs less than tables:
  /// at most 128 KiB of the log for each family that has such entries, and a small segment in any case. Entries
  /// that were never logged go into tables.
  ///
  /// Throws what the last sync met; the engine is closed all the same.
  public func close() throws(EngineError) {
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
    for family in registry.all { family.state.close(pipeline.memory.empty) }
    tree.close()
    epochs.poll()
    pipeline.memory.close()
    tree.cache.setCapacity(0)
  }
}
