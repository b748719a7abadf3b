internal import Synchronization

/// The write path, on one screen: take the writer, run the closure, let extensions write what they have pending,
/// give the batch to the storage (*applied*: the next writer may begin), wait until it is durable
/// (*acknowledged*: readers see it), notify.
extension DatabaseCore {
  /// Runs `body` in a write transaction, on this thread.
  package func write<Result>(
    _ terms: WriteTerms, _ body: (WriteTransaction) throws -> Result
  ) throws -> Result {
    if let outer = ThreadFrame.transaction(of: self) { return try nest(outer, body) }
    // A build is waited for by `close` in another way.
    if !terms.isOfBuild { try enter() }
    defer { if !terms.isOfBuild { leave() } }
    try requireWritable()
    try writer.acquire(terms.label, timeout: terms.timeout(options))
    let (result, commit) = try runHoldingWriter(terms, body)
    try commit.wait(in: self)
    return result
  }

  /// A write inside of a transaction on the same thread: a savepoint in a write, a mistake in a read.
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

  /// Runs `body` and applies what it did. The writer is free when this returns or throws.
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

  /// Gives a transaction to the storage.
  func apply(_ transaction: WriteTransaction, _ terms: WriteTerms) throws -> AppliedCommit {
    try ThreadFrame.run(transaction) { transaction in
      try transaction.check()
      try transaction.requireNoRollback()
      try transaction.flushExtensions()
    }
    if transaction.isUnchanged {
      if !transaction.appliedHandlers.isEmpty {
        commitLock.withLock { _ in for handler in transaction.appliedHandlers { handler(transaction.version) } }
      }
      let completions = transaction.completions
      transaction.end()
      return AppliedCommit(number: nil, ticket: nil, completions: completions)
    }
    let commit = try commitLock.withLock { _ in try give(transaction, terms) }
    transaction.end()
    return commit
  }

  /// The writer and the commit lock are held: commits are given one at a time.
  private func give(_ transaction: WriteTransaction, _ terms: WriteTerms) throws -> AppliedCommit {
    // Never the transaction's own snapshot: others may have committed beside it.
    let (number, before) = try publication.begin(unlessChanged: transaction.snapshot)
    let announced: PendingChangeSet
    let ticket: any StorageTicket
    var missed: [(name: String, record: ExtensionRecord)] = []
    var added: ChangeFeed.Addition?
    do {
      if !transaction.changes.isEmpty { missed = try markMissedStale(transaction, after: before.version) }
      // What the transaction never reads itself: its counts and its entry of the feed.
      var batch = StorageBatch(capacity: 256)
      transaction.writeCounts(to: &batch)
      announced = PendingChangeSet(transaction, time: feed.now, isObserved: isObserved)
      added = try feed.add(announced, to: &batch)
      ticket = try backend.commit(
        transaction.pending, then: batch, check: transaction.reads ?? transaction.independentUses,
        durability: terms.durability ?? options.durability)
    } catch {
      // Whether it happened can't be known: no one may build on it, and readers stay where they are.
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
      number, ticket.version, announced.isEmpty ? nil : announced, sharing, announced.parts ?? .unknown)
    return AppliedCommit(number: number, ticket: ticket, completions: transaction.completions)
  }

  /// An extension that is on disk, and misses a change of rows because no one registered it, is stale from then on.
  /// It has heard of every commit up to `last`.
  private func markMissedStale(
    _ transaction: WriteTransaction, after last: CommitVersion
  ) throws -> [(name: String, record: ExtensionRecord)] {
    try extensionCatalog.missed().map { name, record in
      var record = record
      // What was built to replace it is not whole any more.
      record.shadow = nil
      // Of one whose build was cut short, only rows before its watermark count as heard of.
      record.state = .stale(record.state == .ready ? FeedPosition(after: last) : nil)
      try transaction.pending.put(CatalogKey.databaseExtension(name), record.bytes, in: catalog.families.catalog)
      DatabaseLog.staleExtension(path: path, name: name)
      return (name, record)
    }
  }

  func rollBack(_ transaction: WriteTransaction) { transaction.end() }

  /// Lets the next writer begin, and logs one that held the writer for long.
  func releaseWriter() {
    guard let (label, taken) = writer.release(), taken > options.slowTransaction else { return }
    DatabaseLog.slowTransaction(path: path, label: label, taken: taken)
  }
}

/// How a write is to be done.
package struct WriteTerms: Sendable {
  var label: String?
  var durability: StorageDurability?
  /// However long it takes.
  var waitsForWriter = false
  /// Whether it is a chunk of a build.
  var isOfBuild = false

  package init(
    label: String? = nil, durability: StorageDurability? = nil, waitsForWriter: Bool = false, isOfBuild: Bool = false
  ) {
    self.isOfBuild = isOfBuild
    self.label = label
    self.durability = durability
    self.waitsForWriter = waitsForWriter
  }

  func timeout(_ options: DatabaseOptions) -> Duration {
    waitsForWriter ? .seconds(Int64.max / 4) : options.writerTimeout
  }
}

/// A commit that is applied, and not acknowledged yet.
struct AppliedCommit: Sendable {
  /// Nil: there was nothing to commit.
  let number: UInt64?
  let ticket: (any StorageTicket)?
  let completions: [@Sendable () -> Void]

  /// Waits until it is acknowledged, on this thread.
  func wait(in database: DatabaseCore) throws {
    if let number, let ticket {
      do { try ticket.wait() } catch { throw database.publication.fail(error) }
      try database.publication.acknowledge(number)
    }
    for completion in completions { completion() }
  }

  /// The same, suspended. The task's cancellation does not matter any more.
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
