/// A snapshot of the database that can be read as long as this object is referenced.
///
/// ```swift
/// let before = try database.holdSnapshot()
/// try database.write { tx in try tx.set(book, key: book.id, in: "books") }
/// let former = try before.read { tx in try tx.object(Book.self, key: book.id, in: "books") }
/// ```
///
/// A held snapshot prevents the storage from removing what was changed since. `database.longLivedReads` lists it with
/// its age. Safe from any thread.
public final class HeldSnapshot: Sendable {
  let core: DatabaseCore
  private let held: LongLivedRead

  init(_ core: DatabaseCore, _ snapshot: any StorageSnapshot) {
    self.core = core
    held = core.longLivedReads.begin(snapshot)
  }

  var snapshot: any StorageSnapshot { held.snapshot }
  var trees: RunTreeCache { held.trees }

  /// The version of the last commit that the snapshot contains.
  public var version: CommitVersion { held.snapshot.version }

  /// Reads the snapshot, on the calling thread. The read ends with `CancellationError` if it runs in a task that is
  /// cancelled.
  ///
  /// A transaction that runs on the thread has no effect on what is read. `Database.close` waits for the end of the
  /// read. Throws what `body` throws, and `.closed`; in a database that follows another process also `.snapshotTooOld`
  /// or `.notFound` if that process has removed what the snapshot needs.
  @_disfavoredOverload
  public func read<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result {
    try whileOpen { try core.read(at: held.snapshot, isCancellable: true, trees: held.trees, body) }
  }

  /// Reads the snapshot without blocking the task's thread: see the synchronous form.
  public func read<Result: Sendable>(_ body: sending (ReadTransaction) throws -> Result) async throws -> Result {
    try await withAwaited(body) { body in
      try await core.executor.run { [self] in
        try Task.checkCancellation()
        return try whileOpen { try core.read(at: held.snapshot, isCancellable: true, trees: held.trees, body) }
      }
    }
  }

  func whileOpen<Result>(_ body: () throws -> Result) throws -> Result {
    guard let result = try core.changes.whileOpen(body) else { throw WriterQueue.closedError }
    return result
  }

  /// Returns the commits after a version up to this snapshot, in order, from the feed; or a gap where they are not
  /// known. For the snapshot's own version or a later one, the result is empty. Complexity: linear in the result.
  public func events(after version: CommitVersion) throws -> [ChangeEvent] {
    guard version < self.version else { return [] }
    return try whileOpen { try core.feedEvents(after: version, through: self.version) }
  }
}

extension Database {
  /// Holds the current snapshot until the last reference to the result is released. Throws `.closed`.
  public func holdSnapshot() throws -> HeldSnapshot {
    try core.enter()
    defer { core.leave() }
    let snapshot = try core.publication.snapshot()
    if core.options.follows { try core.catalog.refresh(snapshot) }
    return HeldSnapshot(core, snapshot)
  }
}
