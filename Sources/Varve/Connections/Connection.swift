internal import FutexLocks
internal import Synchronization

/// A reader that caches the objects it has decoded, and can stay at one snapshot.
///
/// ```swift
/// let connection = database.connection(cacheLimit: 1_000)
/// try connection.beginLongLivedRead()
/// let title = try connection.read { tx in try tx.object(Book.self, key: id, in: "books")?.title }
/// let changes = try connection.advance()
/// ```
///
/// Reads without a connection return the same results. A connection is useful if the same objects are read repeatedly,
/// and for user interfaces that show one snapshot until they are ready for the next. The cache never returns the state
/// of a row at another snapshot.
///
/// A snapshot that is held prevents the storage from removing what was changed since. `database.longLivedReads` lists
/// the held snapshots with their ages.
///
/// Safe from any thread.
public final class Connection: Sendable {
  let core: DatabaseCore
  private let cache: ObjectCache
  private let inbox: ConnectionInbox
  private let state = FutexLock(State())

  private struct State {
    var pinned: HeldSnapshot?
  }

  init(_ core: DatabaseCore, cacheLimit: Int) {
    self.core = core
    cache = ObjectCache(limit: cacheLimit)
    inbox = ConnectionInbox()
    core.connections.add(inbox)
  }

  deinit { core.connections.remove(inbox) }

  /// The number of objects in the cache.
  public var cachedCount: Int { cache.count }

  /// Empties the cache.
  public func clearCache() { cache.clear() }

  // MARK: - Transactions

  /// Reads the current snapshot, or the held one. Inside a transaction on the same thread, it joins that transaction.
  @_disfavoredOverload
  public func read<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result {
    try read(isCancellable: false, body)
  }

  private func read<Result>(isCancellable: Bool, _ body: (ReadTransaction) throws -> Result) throws -> Result {
    if ThreadFrame.transaction(of: core) != nil { return try core.read(body) }
    if let performing = core.performingRead { return try performing.runHere(body) }
    try core.enter()
    defer { core.leave() }
    let (snapshot, generation, trees) = try currentSnapshot()
    let transaction = ReadTransaction(database: core, snapshot: snapshot, isCancellable: isCancellable)
    transaction.heldTrees = trees
    transaction.cache = (cache, generation)
    defer { transaction.end() }
    return try ThreadFrame.run(transaction, body)
  }

  /// Reads the current or held snapshot without blocking the task's thread: see the synchronous form. Ends with
  /// `CancellationError` if the task is cancelled, like `Database.read`.
  public func read<Result: Sendable>(_ body: sending (ReadTransaction) throws -> Result) async throws -> Result {
    try await withAwaited(body) { body in
      if let performing = AsyncTransaction.living(of: core) { return try await performing.run { try body($0) } }
      return try await core.executor.run { [self] in
        try Task.checkCancellation()
        return try read(isCancellable: true, body)
      }
    }
  }

  /// Changes the database, like `Database.write`. A held snapshot is kept.
  @_disfavoredOverload
  @discardableResult
  public func write<Result>(
    label: String? = nil, durability: StorageDurability? = nil, _ body: (WriteTransaction) throws -> Result
  ) throws -> Result {
    if let performing = core.performing { return try performing.nestHere(body) }
    return try core.write(WriteTerms(label: label, durability: durability), body)
  }

  /// Changes the database without blocking the task's thread: see the synchronous form.
  @discardableResult
  public func write<Result: Sendable>(
    label: String? = nil, durability: StorageDurability? = nil,
    _ body: sending (WriteTransaction) throws -> Result
  ) async throws -> Result {
    try await Database(core).write(label: label, durability: durability, body)
  }

  private func currentSnapshot() throws -> (any StorageSnapshot, UInt64, RunTreeCache?) {
    try state.withLock { state in
      if let pinned = state.pinned { return (pinned.snapshot, cache.generation, pinned.trees) }
      let (snapshot, _) = try catchUp()
      return (snapshot, cache.generation, nil)
    }
  }

  /// Moves to the newest snapshot, and removes what has changed until then from the cache. Returns the change sets in
  /// between in order, or nil if there were too many to keep or another process committed them.
  private func catchUp() throws -> (any StorageSnapshot, [ChangeSet]?) {
    let (snapshot, arrived) = try core.publication.snapshot { inbox.take() }
    if core.options.follows { try core.catalog.refresh(snapshot) }
    if let arrived, !core.options.follows {
      cache.advance(arrived) { [core] name in
        core.catalog.collection(name, at: snapshot.version).map { ($0.record.id, $0.prefix) }
      }
    } else {
      // The changes are not known: there were too many, or another process committed them.
      cache.clear()
    }
    return (snapshot, core.options.follows ? nil : arrived)
  }

  // MARK: - Long-lived reads

  /// The version of the held snapshot, or nil if none is held.
  public var pinnedVersion: CommitVersion? { state.withLock { $0.pinned?.snapshot.version } }

  /// Holds the current snapshot: reads see it until `advance` or `endLongLivedRead`. If a snapshot is held already,
  /// this is the same as `advance`.
  @_disfavoredOverload
  @discardableResult
  public func beginLongLivedRead() throws -> [ChangeEvent] { try advanceHere() }

  /// Holds the current snapshot without blocking the task's thread: see the synchronous form.
  @discardableResult
  public func beginLongLivedRead() async throws -> [ChangeEvent] { try await advance() }

  /// Moves from the held snapshot to the current one, and returns the commits in between in order, or a gap if they are
  /// no longer known. If no snapshot is held, begins to hold the current one.
  ///
  /// A connection keeps up to 256 change sets and 4 MiB of the commits in between. These have the changes of
  /// extensions, and need no feed. Beyond that limit, and in a database that another process writes, all of them are
  /// read from the feed, which may have to wait for the disk: `ChangeSet.changes(of:)` is then `.reload` for each.
  @_disfavoredOverload
  @discardableResult
  public func advance() throws -> [ChangeEvent] { try advanceHere() }

  /// Moves to the current snapshot without blocking the task's thread: see the synchronous form.
  @discardableResult
  public func advance() async throws -> [ChangeEvent] {
    try await core.executor.run { [self] in
      try Task.checkCancellation()
      return try advanceHere()
    }
  }

  /// Moves as `advance` does, and returns the snapshot that was held before, the one that is held now, and the commits
  /// in between, so that both snapshots can be read.
  @_disfavoredOverload
  public func advanceHolding() throws -> LiveStep { try stepHere() }

  /// Moves without blocking the task's thread: see the synchronous form.
  public func advanceHolding() async throws -> LiveStep {
    try await core.executor.run { [self] in
      try Task.checkCancellation()
      return try stepHere()
    }
  }

  private func advanceHere() throws -> [ChangeEvent] { try stepHere().events }

  private func stepHere() throws -> LiveStep {
    guard let step = try core.changes.whileOpen({ try takeStep() }) else { throw WriterQueue.closedError }
    return step
  }

  /// Moves to the current snapshot, for a caller that keeps the database open.
  func takeStep() throws -> LiveStep {
    try state.withLock { state in
      let before = state.pinned
      let (snapshot, arrived) = try catchUp()
      let changes: [ChangeEvent]
      do {
        changes = try before.map { try self.changes(arrived, after: $0.version, through: snapshot.version) } ?? []
      } catch {
        // The cache is at the new snapshot already, while reads stay at the old one.
        inbox.lose()
        throw error
      }
      let now = HeldSnapshot(core, snapshot)
      state.pinned = now
      return LiveStep(old: before, new: now, events: changes)
    }
  }

  /// Releases the held snapshot. Reads see the newest one again.
  public func endLongLivedRead() { state.withLock { $0.pinned = nil } }

  /// Returns the commits between two versions: the change sets that have arrived, which also have the changes of
  /// extensions, or otherwise those of the feed.
  private func changes(
    _ arrived: [ChangeSet]?, after version: CommitVersion, through last: CommitVersion
  ) throws -> [ChangeEvent] {
    guard version < last else { return [] }
    if let arrived { return arrived.map { .changes($0) } }
    return try core.feedEvents(after: version, through: last)
  }
}
