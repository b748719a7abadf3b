internal import Synchronization

/// The write path: acquire the writer, run the closure, let extensions write their pending changes, give the batch to
/// the storage (*applied*: the next writer may begin), wait until it is durable (*acknowledged*: readers see it), and
/// notify.
extension DatabaseCore {
  /// Runs `body` in a write transaction on this thread, and returns when the commit is acknowledged.
  package func write<Result>(
    _ terms: WriteTerms, _ body: (WriteTransaction) throws -> Result
  ) throws -> Result {
    if let outer = ThreadFrame.transaction(of: self) { return try nest(outer, body) }
    // `close` waits for builds separately, by `builds.pausingWork`.
    if !terms.isOfBuild { try enter() }
    defer { if !terms.isOfBuild { leave() } }
    try requireWritable()
    try writer.acquire(terms.label, timeout: terms.timeout(options))
    let (result, commit) = try runHoldingWriter(terms, body)
    try commit.wait(in: self)
    return result
  }

  /// Runs a write inside a transaction of the same thread: as a savepoint in a write transaction. Throws
  /// `.writeInsideRead` in a read transaction.
  func nest<Result>(_ outer: ReadTransaction, _ body: (WriteTransaction) throws -> Result) throws -> Result {
    try outer.check()
    guard let writing = outer as? WriteTransaction else {
      throw DatabaseError(
        .writeInsideRead, "a write was started inside a read on the same thread; start it before or after the read")
    }
    return try writing.savepoint { try body(writing) }
  }

  package func requireWritable() throws {
    if backend.isReadOnly { throw DatabaseError(.readOnly, "the database was opened read-only") }
  }

  /// Runs `body` in a transaction and applies its changes. The writer has been released when this returns or throws.
  func runHoldingWriter<Result>(
    _ terms: WriteTerms, _ body: (WriteTransaction) throws -> Result
  ) throws -> (Result, AppliedCommit) {
    defer { releaseWriter() }
    let transaction = try WriteTransaction(
      database: self, snapshot: try backend.snapshot(), label: terms.label)
    do {
      let result = try ThreadFrame.run(transaction, body)
      return (result, try apply(transaction, terms))
    } catch {
      rollBack(transaction)
      throw error
    }
  }

  /// Lets extensions flush, and gives the transaction's changes to the storage.
  func apply(_ transaction: WriteTransaction, _ terms: WriteTerms) throws -> AppliedCommit {
    try ThreadFrame.run(transaction) { transaction in
      try transaction.check()
      try transaction.requireNoRollback()
      try transaction.flushExtensions()
      try transaction.flushRuns()
    }
    if transaction.isUnchanged {
      if !transaction.appliedHandlers.isEmpty {
        commitLock.withLock { _ in for handler in transaction.appliedHandlers { handler(transaction.version) } }
      }
      let read = commitInFlight(readAt: transaction.version)
      let completions = transaction.completions
      transaction.end()
      return AppliedCommit(number: read?.number, ticket: read?.ticket, completions: completions)
    }
    let commit = try commitLock.withLock { _ in try submit(transaction, terms) }
    transaction.end()
    return commit
  }

  /// Returns the last commit that a transaction at `version` has read and that is not acknowledged yet.
  ///
  /// A transaction that changes nothing waits for it: its caller may act on what the transaction has read, which a loss
  /// of power could otherwise undo, and which the caller's next read would not see.
  func commitInFlight(readAt version: CommitVersion) -> (number: UInt64, ticket: any StorageTicket)? {
    if !publication.hasInFlight { return nil }
    // No commit is between its submission to the storage and its entry in the publication while the lock is held.
    return commitLock.withLock { _ in publication.inFlight(upTo: version) }
  }

  /// Submits the changes to the storage. The writer and the commit lock are held, so commits are submitted one at a
  /// time.
  private func submit(_ transaction: WriteTransaction, _ terms: WriteTerms) throws -> AppliedCommit {
    // The snapshot before the commit is the transaction's own only if nothing was committed since.
    let (number, before) = try publication.begin(unlessChanged: transaction.snapshot)
    let announced: PendingChangeSet
    let ticket: any StorageTicket
    var missed: [(name: String, record: ExtensionRecord)] = []
    var added: ChangeFeed.Addition?
    do {
      if !transaction.changes.isEmpty { missed = try markMissedStale(transaction, after: before.version) }
      // The transaction itself never reads its counts and its entry of the feed.
      var batch = StorageBatch(capacity: 256)
      transaction.writeCounts(to: &batch)
      announced = PendingChangeSet(transaction, time: feed.now, isObserved: isObserved)
      added = try feed.add(announced, to: &batch)
      ticket = try backend.commit(
        transaction.pending, then: batch, check: transaction.reads ?? transaction.independentUses,
        durability: terms.durability ?? options.durability)
    } catch {
      // Whether the commit happened can't be known: no later commit may build on it, and readers keep their snapshot.
      if let error = error as? DatabaseError, error.code == .outcomeUnknown { throw publication.fail(error) }
      publication.refused(number)
      feed.didNotCommit(added)
      throw error
    }
    feed.didCommit(added, ticket.version, rowCount: transaction.changes.changeCount)
    for (name, record) in missed { extensionCatalog.set(record, for: name) }
    let sharing = transaction.deltas(ticket.version)
    for handler in transaction.appliedHandlers { handler(ticket.version) }
    publication.applied(
      number, ticket, announced.isEmpty ? nil : announced, sharing, announced.parts ?? .unknown)
    return AppliedCommit(number: number, ticket: ticket, completions: transaction.completions)
  }

  /// Marks as stale each extension that is on disk and misses a change of rows because it is not registered.
  ///
  /// Such an extension has received every commit up to `last`.
  private func markMissedStale(
    _ transaction: WriteTransaction, after last: CommitVersion
  ) throws -> [(name: String, record: ExtensionRecord)] {
    try extensionCatalog.missed().map { name, record in
      var record = record
      // The extension that was being built to replace it is no longer complete either.
      record.shadow = nil
      // An extension whose build was interrupted has received only the rows before its watermark.
      record.state = .stale(record.state == .ready ? FeedPosition(after: last) : nil)
      try transaction.pending.put(CatalogKey.databaseExtension(name), record.bytes, in: catalog.families.catalog)
      DatabaseLog.staleExtension(path: path, name: name)
      return (name, record)
    }
  }

  func rollBack(_ transaction: WriteTransaction) { transaction.end() }

  /// Releases the writer, and logs a transaction that held it for longer than `slowTransaction`.
  func releaseWriter() {
    guard let (label, taken) = writer.release(), taken > options.slowTransaction else { return }
    DatabaseLog.slowTransaction(path: path, label: label, taken: taken)
  }
}

/// The options of a write.
package struct WriteTerms: Sendable {
  var label: String?
  var durability: StorageDurability?
  /// Whether the write waits for the writer without a timeout.
  var waitsForWriter = false
  /// The time that the write waits for the writer, or `nil` for the time of the options.
  var writerTimeout: Duration?
  /// Whether the write is a chunk of a build.
  var isOfBuild = false

  package init(
    label: String? = nil, durability: StorageDurability? = nil, waitsForWriter: Bool = false, isOfBuild: Bool = false
  ) {
    self.isOfBuild = isOfBuild
    self.label = label
    self.durability = durability
    self.waitsForWriter = waitsForWriter
  }

  /// Returns the terms for a commit after which families of an extension are dropped. The commit has to survive a loss
  /// of power, because the families are gone for certain afterwards, and the record must say so.
  static func beforeDrop(_ name: String, isOfBuild: Bool = false) -> WriteTerms {
    WriteTerms(label: "register \(name)", durability: .power, waitsForWriter: true, isOfBuild: isOfBuild)
  }

  func timeout(_ options: DatabaseOptions) -> Duration {
    waitsForWriter ? .seconds(Int64.max / 4) : writerTimeout ?? options.writerTimeout
  }
}

/// A commit that is applied, but not acknowledged yet; or the end of a transaction that changed nothing.
struct AppliedCommit: Sendable {
  /// The number of the commit that the caller waits for: the transaction's own, or, if it changed nothing, the last one
  /// that it has read. `nil` if the caller waits for no commit.
  let number: UInt64?
  let ticket: (any StorageTicket)?
  let completions: [@Sendable () -> Void]

  /// Waits on this thread until the commit is acknowledged, and then runs the completions.
  func wait(in database: DatabaseCore) throws {
    if let number, let ticket {
      do { try ticket.wait() } catch { throw database.publication.fail(error) }
      try database.publication.acknowledge(number)
    }
    for completion in completions { completion() }
  }

  /// Waits like `wait(in:)`, but suspends the caller's task. Cancelling the task no longer has an effect.
  func waitSuspended(in database: DatabaseCore) async throws {
    if let number, let ticket {
      if !ticket.isDurable {
        do { try await ticket.waitSuspended() } catch { throw database.publication.fail(error) }
      }
      try database.publication.acknowledge(number)
    }
    for completion in completions { completion() }
  }
}
