/// Observing changes.
extension Database {
  /// Returns the changes of commits from now on, or after `version`: each acknowledged commit once, in commit order,
  /// and the same for all consumers.
  ///
  /// ```swift
  /// for try await event in database.changes(after: resumePoint) {
  ///   switch event {
  ///   case .changes(let changes): try await upload(changes.changedKeys(in: "notes"))
  ///   case .gap: try await uploadEverything()
  ///   }
  ///   resumePoint = event.version
  /// }
  /// ```
  ///
  /// A consumer may take as long as it wants; nothing waits for it. Up to `buffer` change sets are kept for it in
  /// memory. It reads later ones from the feed, and if the feed has been trimmed before it read them, it receives one
  /// gap. Without a feed (`DatabaseOptions.feed`), a gap replaces the change sets that exceed the buffer.
  ///
  /// The version of an event is a resume point: it may be stored, remains valid after a restart, and works in each
  /// process that opens the database. The version of a transaction works too: `changes(after:)` then returns what that
  /// transaction has not seen.
  ///
  /// If the database follows another process (`DatabaseOptions.follows`), these are the commits of that process, read
  /// from the feed that it writes. The sequence ends when the database is closed.
  public func changes(after version: CommitVersion? = nil, buffer: Int = 256) -> ChangeSequence {
    ChangeSequence(core, after: version, capacity: buffer)
  }

  /// Returns the commits after a version from the feed: at most `limit` events, the oldest first.
  ///
  /// Without a feed, the result is a gap; a part of a damaged feed that cannot be read is a gap, too.
  ///
  /// Complexity: linear in the returned events. Throws `.closed`, and `.invalidArgument` for a limit below 1.
  @_disfavoredOverload
  public func feed(after version: CommitVersion = .zero, limit: Int = 100) throws -> [ChangeEvent] {
    try core.feed(after: version, limit: limit)
  }

  /// Returns the commits after a version without blocking the task's thread: see the synchronous form. Ends with
  /// `CancellationError` if the task is cancelled.
  public func feed(after version: CommitVersion = .zero, limit: Int = 100) async throws -> [ChangeEvent] {
    let core = core
    return try await core.executor.run {
      try Task.checkCancellation()
      return try core.feed(after: version, limit: limit, isCancellable: true)
    }
  }

  /// Returns a sequence of the object of a row: its current value, and its value after each acknowledged commit that
  /// has changed, touched or removed the row. The value is nil while the row does not exist.
  ///
  /// ```swift
  /// for try await note in database.observe(Note.self, key: id, in: "notes") { self.note = note }
  /// ```
  ///
  /// Only the newest value is delivered: a consumer that is slower than the commits receives the value at the time of
  /// its read, without those in between. If the row cannot be read, or cannot be decoded as the type, the iteration
  /// throws the error and ends; another one may be started. Each iteration observes independently. It ends when the
  /// database is closed.
  public func observe<Object: Decodable & Sendable>(
    _ type: Object.Type = Object.self, key: some KeyCodable, in collection: String
  ) -> ObjectObservation<Object> {
    ObjectObservation(core, Result { try RowKey(key, in: collection) }) { transaction in
      try transaction.object(type, key: key, in: collection)
    }
  }

  /// Returns a sequence of the changes of a collection: first a reload, and then the changed rows. For a slower
  /// consumer, the changes of several commits are merged.
  ///
  /// ```swift
  /// for try await change in database.observe(in: "notes") {
  ///   if change.isReload {
  ///     notes = try await allNotes()
  ///   } else {
  ///     try await update(change.changedKeys, change.removedKeys)
  ///   }
  /// }
  /// ```
  ///
  /// What the consumer reads when it receives a change is at least as new as the change. At worst, it reads a key twice
  /// that has changed again since. Therefore keys are delivered, not objects: a caller that shows ten rows of a million
  /// reads ten. Each iteration observes independently. It ends when the database is closed.
  public func observe(in collection: String) -> CollectionObservation { CollectionObservation(core, collection) }

  /// Returns a sequence of the results of a closure: the current one, and one after each acknowledged commit that has
  /// changed what the closure read. Values that equal the previous one are omitted.
  ///
  /// ```swift
  /// let read = books.query.filter { $0.isRead }
  /// for try await count in database.observe({ tx in try read.count(in: tx) }) { show(count) }
  /// ```
  ///
  /// The reads of the closure are recorded: the keys and ranges of rows and of the parts of extensions, such as an
  /// index, and the collections that it looked up. More than 1,000 of a family count as the whole family. For an
  /// extension with shared state, and if another program writes the database, all rows of its scope count.
  ///
  /// The closure runs on a thread that may wait for a disk and on which no commit runs; all commits during a run lead
  /// to one further run. Only the newest value is delivered. An error of the closure ends the iteration. The iteration
  /// ends when the database is closed.
  public func observe<Value: Equatable & Sendable>(
    _ read: @escaping @Sendable (ReadTransaction) throws -> Value
  ) -> ReadObservation<Value> {
    ReadObservation(core, isSame: ==, read)
  }

  /// Returns a sequence of the results of a closure: the current one, and one after each acknowledged commit that has
  /// changed what the closure read.
  @_disfavoredOverload
  public func observe<Value: Sendable>(
    _ read: @escaping @Sendable (ReadTransaction) throws -> Value
  ) -> ReadObservation<Value> {
    ReadObservation(core, isSame: { _, _ in false }, read)
  }
}

extension DatabaseCore {
  fileprivate func feed(
    after version: CommitVersion, limit: Int, isCancellable: Bool = false
  ) throws -> [ChangeEvent] {
    guard limit > 0 else { throw DatabaseError(.invalidArgument, "a limit of \(limit) events; it must be positive") }
    try enter()
    defer { leave() }
    return try readFeed(after: version, commitLimit: limit, rowLimit: .max, isCancellable: isCancellable).events
  }
}

extension Database {
  /// Returns a sequence with an element after each commit.
  @_spi(Extensions) public var commitSignals: CommitSignals { CommitSignals(core) }

  /// Runs `body`, which reads, on a thread of the database. Returns `nil` if the database is closed; `close` waits for
  /// `body`.
  @_spi(Extensions) public func readWhileOpen<Result: Sendable>(
    _ body: @Sendable () throws -> Result
  ) async throws -> Result? {
    try await core.executor.run { [core] in try core.changes.whileOpen(body) }
  }
}
