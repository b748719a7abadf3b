internal import Synchronization

/// Concurrent writes.
///
/// The closure runs without the writer, on a snapshot of its own, and its reads are recorded. The writer is then
/// acquired for the commit alone, which the storage checks: no key and no range that was read may have changed since
/// the snapshot. A transaction that holds the writer throughout is therefore never interleaved with the commit of a
/// concurrent one.
///
/// An extension that does not support concurrent writes ends the attempt with the first change that it receives. The
/// closure then runs again with the writer held.
extension DatabaseCore {
  /// The number of concurrent attempts before the closure runs with the writer held.
  static let concurrentAttempts = 8

  func writeConcurrently<Result>(
    _ terms: WriteTerms, _ body: (WriteTransaction) throws -> Result
  ) throws -> Result {
    if let outer = ThreadFrame.transaction(of: self) { return try nest(outer, body) }
    try enter()
    defer { leave() }
    try requireWritable()
    for _ in 0..<Self.concurrentAttempts {
      guard let attempt = try begun(terms, body) else { continue }
      if attempt.transaction.needsWriter { break }
      do {
        try writer.acquire(terms.label, timeout: options.writerTimeout)
      } catch {
        rollBack(attempt.transaction)
        throw error
      }
      if let commit = try applyHoldingWriter(attempt.transaction, terms) {
        try commit.wait(in: self)
        return try attempt.result.get()
      }
      if noteNeedsWriter(attempt.transaction) { break }
    }
    try writer.acquire(terms.label, timeout: options.writerTimeout)
    let (result, commit) = try runHoldingWriter(terms, body)
    try commit.wait(in: self)
    return result
  }

  /// Writes concurrently like `writeConcurrently(_:_:)`, but suspends the caller's task while it waits for the writer
  /// and for the commit.
  func writeConcurrentlySuspended<Result: Sendable>(
    _ terms: WriteTerms, _ body: @Sendable (WriteTransaction) throws -> Result
  ) async throws -> Result {
    try enter()
    defer { leave() }
    try requireWritable()
    for _ in 0..<Self.concurrentAttempts {
      try Task.checkCancellation()
      guard let attempt = try await run(isInline: backend.isInMemory, on: executor, { try begun(terms, body) }) else {
        continue
      }
      if attempt.transaction.needsWriter { break }
      let isCommitted = try await writerExecutor.runTask {
        do {
          try await writer.acquire(terms.label, timeout: options.writerTimeout)
        } catch {
          rollBack(attempt.transaction)
          throw error
        }
        guard let commit = try applyHoldingWriter(attempt.transaction, terms) else { return false }
        try await commit.waitSuspended(in: self)
        return true
      }
      if isCommitted { return try attempt.result.get() }
      if noteNeedsWriter(attempt.transaction) { break }
    }
    return try await writeInTurn(terms, body)
  }

  /// A transaction whose closure has run, and which will be committed once it has the writer.
  private struct Attempt<Result>: @unchecked Sendable {
    // Sendable: the transaction is passed from one thread to the next, and never used by two at once.
    let transaction: WriteTransaction
    let result: Swift.Result<Result, any Error>
  }

  /// Counts an attempt that ended because it needs the writer, and returns whether it did.
  private func noteNeedsWriter(_ transaction: WriteTransaction) -> Bool {
    if transaction.needsWriter { counts.writesThatTookTheWriter.add(1, ordering: .relaxed) }
    return transaction.needsWriter
  }

  /// Runs the closure in a concurrent transaction.
  ///
  /// Returns `nil` if it threw after its snapshot had become too old or the extensions had changed. A transaction that
  /// needs the writer has been rolled back.
  private func begun<Result>(
    _ terms: WriteTerms, _ body: (WriteTransaction) throws -> Result
  ) throws -> Attempt<Result>? {
    let transaction = try beginConcurrent(terms)
    do {
      let result = try ThreadFrame.run(transaction, body)
      // The writer may be needed even though the closure has caught the error.
      if noteNeedsWriter(transaction) { rollBack(transaction) }
      return Attempt(transaction: transaction, result: .success(result))
    } catch {
      rollBack(transaction)
      if noteNeedsWriter(transaction) { return Attempt(transaction: transaction, result: .failure(error)) }
      // The error may be due to an extension that was registered, removed or built further in the meantime.
      if let error = error as? DatabaseError,
        error.code == .snapshotTooOld || transaction.extensionEdition != extensions.edition
      {
        return nil
      }
      throw error
    }
  }

  func beginConcurrent(_ terms: WriteTerms) throws -> WriteTransaction {
    let snapshot = try backend.snapshot()
    let transaction = try WriteTransaction(database: self, snapshot: snapshot, label: terms.label)
    transaction.reads = StorageCheck(snapshot)
    return transaction
  }

  /// Commits a concurrent transaction. Returns `nil` if something that it has read has changed. The writer has been
  /// released when this returns or throws.
  func applyHoldingWriter(_ transaction: WriteTransaction, _ terms: WriteTerms) throws -> AppliedCommit? {
    defer { releaseWriter() }
    // An extension that was registered, removed or built further in the meantime has received too few or too many
    // changes.
    guard transaction.extensionEdition == extensions.edition else {
      rollBack(transaction)
      return nil
    }
    guard hasItsCollections(transaction) else {
      rollBack(transaction)
      return nil
    }
    do {
      return try apply(transaction, terms)
    } catch let error as DatabaseError where error.code == .conflict {
      rollBack(transaction)
      return nil
    } catch {
      rollBack(transaction)
      if transaction.needsWriter { return nil }
      throw error
    }
  }

  /// Whether every collection that the transaction has written to still exists. A collection that the transaction
  /// itself has made had nothing in it that a drop would have removed.
  private func hasItsCollections(_ transaction: WriteTransaction) -> Bool {
    transaction.changes.collections.ordered.allSatisfy { catalog.collection($0.info.record.id) != nil }
  }
}
