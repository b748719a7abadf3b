internal import FutexLocks
internal import Synchronization

/// A reader of its own: it keeps the objects that it decoded, and can stay at one snapshot.
///
/// ```swift
/// let connection = database.connection(cacheLimit: 1_000)
/// try connection.beginLongLivedRead()
/// let title = try connection.read { tx in try tx.object(Book.self, key: id, in: "books")?.title }
/// let changes = try connection.advance()
/// ```
///
/// Reads without one are as right; a connection pays where the same objects are read again and again, and for user
/// interfaces that show one snapshot until they are ready for the next. The cache never shows what a row is at another
/// snapshot.
///
/// A snapshot that is held keeps the storage from dropping what was changed since. `database.longLivedReads` says which
/// are held, and for how long.
///
/// Safe from any thread.
public final class Connection: Sendable {
  let core: DatabaseCore
  private let cache: ObjectCache
  private let inbox: ConnectionInbox
  private let state = FutexLock(State())

  private struct State {
    var pinned: LongLivedRead?
  }

  init(_ core: DatabaseCore, cacheLimit: Int) {
    self.core = core
    cache = ObjectCache(limit: cacheLimit)
    inbox = ConnectionInbox()
    core.connections.add(inbox)
  }

  deinit { core.connections.remove(inbox) }

  /// How many objects are in the cache.
  public var cachedCount: Int { cache.count }

  /// Empties the cache.
  public func clearCache() { cache.clear() }

  // MARK: - Transactions

  /// Reads the current snapshot, or the one that is held. Inside of a transaction on the same thread it joins that.
  @_disfavoredOverload
  public func read<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result {
    if ThreadFrame.transaction(of: core) != nil { return try core.read(body) }
    if let performing = core.performingRead { return try performing.runHere(body) }
    try core.enter()
    defer { core.leave() }
    let (snapshot, generation) = try currentSnapshot()
    let transaction = ReadTransaction(database: core, snapshot: snapshot)
    transaction.cache = (cache, generation)
    defer { transaction.end() }
    return try ThreadFrame.run(transaction, body)
  }

  /// The same for tasks.
  public func read<Result: Sendable>(_ body: @Sendable (ReadTransaction) throws -> Result) async throws -> Result {
    if let performing = AsyncTransaction.living(of: core) { return try await performing.run { try body($0) } }
    return try await core.executor.run { [self] in try self.readHere(body) }
  }

  /// The blocking form, for where `read` means the other.
  private func readHere<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result { try read(body) }

  /// Changes the database, as `Database.write`. A snapshot that is held stays.
  @_disfavoredOverload
  @discardableResult
  public func write<Result>(
    label: String? = nil, durability: StorageDurability? = nil, _ body: (WriteTransaction) throws -> Result
  ) throws -> Result {
    if let performing = core.performing { return try performing.nestHere(body) }
    return try core.write(WriteTerms(label: label, durability: durability), body)
  }

  /// The same for tasks.
  @discardableResult
  public func write<Result: Sendable>(
    label: String? = nil, durability: StorageDurability? = nil,
    _ body: @Sendable (WriteTransaction) throws -> Result
  ) async throws -> Result {
    try await Database(core).write(label: label, durability: durability, body)
  }

  private func currentSnapshot() throws -> (any StorageSnapshot, UInt64) {
    try state.withLock { state in
      if let pinned = state.pinned { return (pinned.snapshot, cache.generation) }
      let (snapshot, _) = try catchUp()
      return (snapshot, cache.generation)
    }
  }

  /// Moves to the newest snapshot: the cache loses what changed until then. Returns the change sets in between, in order;
  /// nil where there were too many to keep, or another process made them.
  private func catchUp() throws -> (any StorageSnapshot, [ChangeSet]?) {
    let (snapshot, arrived) = try core.publication.snapshot { inbox.take() }
    if core.options.follows { try core.catalog.refresh(snapshot) }
    if let arrived, !core.options.follows {
      cache.advance(arrived) { [core] name in
        core.catalog.collection(name, at: snapshot.version).map { ($0.record.id, $0.prefix) }
      }
    } else {
      // Too much, or another process: no one says what changed.
      cache.clear()
    }
    return (snapshot, core.options.follows ? nil : arrived)
  }

  // MARK: - Long-lived reads

  /// The version of the snapshot that is held; nil where none is.
  public var pinnedVersion: CommitVersion? { state.withLock { $0.pinned?.snapshot.version } }

  /// Holds the current snapshot: reads see it until `advance` or `endLongLivedRead`. Where one is held it is `advance`.
  @_disfavoredOverload
  @discardableResult
  public func beginLongLivedRead() throws -> [ChangeEvent] { try advanceHere() }

  /// The same for tasks.
  @discardableResult
  public func beginLongLivedRead() async throws -> [ChangeEvent] { try await advance() }

  /// Moves from the snapshot that is held to this one, at once, and returns what was committed in between, in order:
  /// a gap where that is not known any more. Where none is held it begins to.
  ///
  /// A connection holds up to 256 change sets and 4 MiB of what was committed in between. Those have the changes of
  /// extensions, and need no feed. Beyond that, and in a database that another process writes, all of them are read from
  /// the feed, which may have to wait for the disk: `ChangeSet.changes(of:)` is `.reload` for each.
  @_disfavoredOverload
  @discardableResult
  public func advance() throws -> [ChangeEvent] { try advanceHere() }

  /// The same for tasks.
  @discardableResult
  public func advance() async throws -> [ChangeEvent] {
    try await core.executor.run { [self] in try advanceHere() }
  }

  private func advanceHere() throws -> [ChangeEvent] {
    try core.enter()
    defer { core.leave() }
    return try state.withLock { state in
      let before = state.pinned?.snapshot.version
      let (snapshot, arrived) = try catchUp()
      let changes: [ChangeEvent]
      do {
        changes = try before.map { try self.changes(arrived, after: $0, through: snapshot.version) } ?? []
      } catch {
        // The cache is at the new snapshot, and reads stay at the old one.
        inbox.lose()
        throw error
      }
      state.pinned = core.longLivedReads.begin(snapshot)
      return changes
    }
  }

  /// Lets go of the snapshot that is held. Reads see the newest again.
  public func endLongLivedRead() { state.withLock { $0.pinned = nil } }

  /// What was committed between two versions: the change sets that have arrived, which also have the changes of
  /// extensions, and else the feed.
  private func changes(
    _ arrived: [ChangeSet]?, after version: CommitVersion, through last: CommitVersion
  ) throws -> [ChangeEvent] {
    guard version < last else { return [] }
    if let arrived { return arrived.map { .changes($0) } }
    return try core.feedEvents(after: version, through: last)
  }
}
