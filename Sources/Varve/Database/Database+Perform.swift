extension Database {
  /// Changes the database from an asynchronous closure.
  ///
  /// Every call to this database in the closure and its child tasks belongs to one transaction, without passing the
  /// transaction along, and so do the calls of synchronous code that it calls.
  ///
  /// ```swift
  /// try await database.perform {
  ///   try await authors.persist(author)
  ///   for book in books { try await store.persist(book) }
  /// }
  /// ```
  ///
  /// The closure runs on threads of the database if it is not isolated to an actor, and on its actor otherwise.
  ///
  /// The closure holds the writer until it ends, so it should not wait for a user or a network. If it starts a write in
  /// a detached task and waits for it, that write waits for the writer in vain, and throws `.writerBusy` in the end.
  /// Inside another `perform`, the closure is a savepoint, which alone is undone if it throws. A task that uses the
  /// transaction after its end receives `.transactionEnded`.
  @discardableResult
  public func perform<Result>(
    label: String? = nil, durability: StorageDurability? = nil, isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws -> Result
  ) async throws -> Result {
    if let outer = AsyncTransaction.current(of: core) { return try await outer.perform(isolation: isolation, body) }
    let terms = WriteTerms(label: label, durability: durability)
    try core.enter()
    defer { core.leave() }
    try core.requireWritable()
    return try await withTaskExecutorPreference(core.writerExecutor, isolation: isolation) {
      try await core.writer.acquire(label, timeout: core.options.writerTimeout)
      let result: Result
      let commit: AppliedCommit
      do {
        defer { core.releaseWriter() }
        let transaction = try WriteTransaction(database: core, snapshot: try core.backend.snapshot(), label: label)
        let performing = AsyncTransaction(core, transaction, terms)
        do {
          result = try await performing.inside(isolation: isolation, body)
          await performing.finish()
          commit = try await performing.apply()
        } catch {
          await performing.finish()
          core.rollBack(transaction)
          throw error
        }
      }
      try await commit.waitSuspended(in: core)
      return result
    }
  }
}
