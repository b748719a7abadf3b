internal import Synchronization

/// The independent lane: commits of independent parts alone, which never wait for the writer.
///
/// ```
///  writer's lane   ─ closure ────────────────┐ commit lock ┌─ durable ─▶ acknowledged
///  independent     ─ closure ┐ commit lock ┌─ durable ─▶ acknowledged
/// ```
/// The closure runs on the storage's snapshot, and the storage checks at the commit what the closure has read. The
/// commit lock (`DatabaseCore.commitLock`) puts the commits of both lanes in one order: only while it is held is the
/// snapshot before a commit taken, the commit's number assigned by the publication, and the commit's batch submitted,
/// which also records the last commit that has to survive a loss of power. An independent commit therefore waits for
/// the one batch that is being inserted, and is acknowledged after the syncs that the commits before it wait for.
///
/// An independent commit changes no rows: it calls no hook, adds no entry to the feed, and has no change set.
/// Extensions with shared state receive the commit without a delta.
extension DatabaseCore {
  /// The writes of an extension that belong to the last commit, or `nil` if there are none.
  struct LastWrites {
    var body: (@Sendable (IndependentParts) throws -> Void)?
    /// What is called after the database was closed.
    var afterwards: [@Sendable () -> Void] = []
  }

  /// The maximum number of times that the closure runs.
  static let independentAttempts = 64

  func commitIndependently<Result: Sendable>(
    _ terms: WriteTerms, _ body: @Sendable (IndependentParts) throws -> Result
  ) async throws -> Result {
    try enter()
    defer { leave() }
    try requireWritable()
    return try await writerExecutor.runTask {
      for _ in 0..<Self.independentAttempts {
        try Task.checkCancellation()
        if let (result, commit) = try attemptIndependently(terms, body) {
          try await commit.waitSuspended(in: self)
          counts.independentCommits.add(1, ordering: .relaxed)
          return result
        }
        counts.independentConflicts.add(1, ordering: .relaxed)
      }
      throw DatabaseError(
        .conflict,
        "other commits have changed what the closure reads, \(Self.independentAttempts) times; begin it again")
    }
  }

  /// Makes one attempt to commit. Returns `nil` if something that the closure has read was changed by another commit,
  /// or if the extensions have changed.
  private func attemptIndependently<Result>(
    _ terms: WriteTerms, _ body: (IndependentParts) throws -> Result
  ) throws -> (Result, AppliedCommit)? {
    let snapshot = try backend.snapshot()
    let transaction = try WriteTransaction(database: self, snapshot: snapshot, label: terms.label)
    transaction.reads = StorageCheck(snapshot)
    transaction.isIndependent = true
    defer { transaction.end() }
    let parts = IndependentParts(transaction)
    do {
      let result = try body(parts)
      if transaction.pending.isEmpty {
        let read = commitInFlight(readAt: transaction.version)
        return (result, AppliedCommit(number: read?.number, ticket: read?.ticket, completions: []))
      }
      return try commitLock.withLock { _ in try submitIndependent(parts, terms) }.map { (result, $0) }
    } catch let error as DatabaseError where error.code == .conflict || error.code == .snapshotTooOld {
      return nil
    }
  }

  /// Sets what the last commit writes.
  func writeAtClose(_ body: @escaping @Sendable (IndependentParts) throws -> Void) {
    lastWrites.withLock { $0.body = body }
  }

  /// Adds a closure that is called once, after the database was closed.
  func whenClosed(_ body: @escaping @Sendable () -> Void) {
    lastWrites.withLock { $0.afterwards.append(body) }
  }

  /// Calls the closures of `whenClosed`.
  func noteClosed() {
    let bodies = lastWrites.withLock { writes in
      defer { writes.afterwards = [] }
      return writes.afterwards
    }
    for body in bodies { body() }
  }

  /// Makes the last commit, when the database is closed. No transaction runs, and none can begin any more, so nothing
  /// follows this commit, even if the storage then fails to close.
  ///
  /// The commit is not published, because no one can read it in this process. If it can't be made, the database is as
  /// after the death of the process.
  func commitLast() {
    guard !backend.isReadOnly, let body = lastWrites.withLock({ $0.body }),
      let (_, commit) = try? attemptIndependently(WriteTerms(label: "close"), body)
    else { return }
    try? commit.ticket?.wait()
    if let number = commit.number { publication.refused(number) }
  }

  /// Gives the batch to the storage, with the commit lock held. Returns `nil` if the extensions have changed.
  private func submitIndependent(_ parts: IndependentParts, _ terms: WriteTerms) throws -> AppliedCommit? {
    guard parts.isCurrent else { return nil }
    let transaction = parts.transaction
    let number = try publication.begin().number
    let ticket: any StorageTicket
    do {
      ticket = try backend.commit(
        transaction.pending, then: StorageBatch(), check: transaction.reads,
        durability: terms.durability ?? options.durability)
    } catch {
      if let error = error as? DatabaseError, error.code == .outcomeUnknown { throw publication.fail(error) }
      publication.refused(number)
      throw error
    }
    let sharing = extensions.list.sharing.map { Publication.Sharing(registered: $0, delta: nil) }
    publication.applied(number, ticket, nil, sharing, transaction.partWrites?.noted ?? .unknown)
    return AppliedCommit(number: number, ticket: ticket, completions: [])
  }
}
