internal import Synchronization

/// Writers side by side.
///
/// The closure runs without the writer, on a snapshot of its own, and what it reads is noted. Then it takes the
/// writer for the commit alone, which the storage checks: nothing that was read, keys and ranges alike, may have
/// changed since. So a transaction that holds the writer throughout never meets one of these inside.
///
/// An extension that does not work side by side ends the attempt with the first change that it receives. Then the closure
/// runs again with the writer held.
extension DatabaseCore {
  /// How often it is tried side by side before it joins the writer's line.
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

  /// The same for tasks: the writer and the commit are waited for without a thread.
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
    return try await writeInLine(terms, body)
  }

  /// A transaction whose closure has run, on its way to the writer.
  private struct Attempt<Result>: @unchecked Sendable {
    // Sendable: it goes from one thread to the next, and is never used by two.
    let transaction: WriteTransaction
    let result: Swift.Result<Result, any Error>
  }

  /// Counts an attempt that ended because the writer is needed.
  private func noteNeedsWriter(_ transaction: WriteTransaction) -> Bool {
    if transaction.needsWriter { counts.writesThatTookTheWriter.add(1, ordering: .relaxed) }
    return transaction.needsWriter
  }

  /// Nil: its snapshot was overtaken while it ran. A transaction that needs the writer has ended.
  private func begun<Result>(
    _ terms: WriteTerms, _ body: (WriteTransaction) throws -> Result
  ) throws -> Attempt<Result>? {
    let transaction = try beginConcurrent(terms)
    do {
      let result = try ThreadFrame.run(transaction, body)
      // Also where the closure has caught the error.
      if noteNeedsWriter(transaction) { rollBack(transaction) }
      return Attempt(transaction: transaction, result: .success(result))
    } catch {
      rollBack(transaction)
      if noteNeedsWriter(transaction) { return Attempt(transaction: transaction, result: .failure(error)) }
      // An extension that came, went or was built further meanwhile is the cause, or may be.
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

  /// Nil: something that was read has changed. The writer is free when this returns or throws.
  func applyHoldingWriter(_ transaction: WriteTransaction, _ terms: WriteTerms) throws -> AppliedCommit? {
    defer { releaseWriter() }
    // An extension that came, went or was built further meanwhile was notified of too little, or too much.
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

  /// Whether every collection that it has written to is still there. One that it has made itself has nothing in it that
  /// a drop would have met.
  private func hasItsCollections(_ transaction: WriteTransaction) -> Bool {
    transaction.changes.collections.ordered.allSatisfy { catalog.collection($0.info.record.id) != nil }
  }
}
