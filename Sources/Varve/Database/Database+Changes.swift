/// Hearing of changes.
extension Database {
  /// What commits change from now on, or after `version`: in commit order, each acknowledged commit once, the same for
  /// everyone who listens.
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
  /// A consumer takes as long as it wants: no one waits for it. Up to `buffer` change sets are kept for it in memory;
  /// what is beyond that it gets from the feed, and where the feed has been trimmed before it came to that, one gap.
  /// Without a feed (`DatabaseOptions.feed`) a gap replaces what was beyond.
  ///
  /// The version of an event is a resume point: it may be stored, outlives a restart, and works in each process that
  /// opens the database. So does the version of a transaction: `changes(after:)` it tells what that has not seen.
  ///
  /// Of a database that follows another process (`DatabaseOptions.follows`) these are the commits of that process,
  /// read from the feed that it writes. The sequence ends when the database is closed.
  public func changes(after version: CommitVersion? = nil, buffer: Int = 256) -> ChangeSequence {
    ChangeSequence(core, after: version, capacity: buffer)
  }

  /// What was committed after a version, from the feed: at most `limit` events, the oldest first. Without a feed it is
  /// a gap, and so is what can't be read of a damaged one.
  ///
  /// Complexity: O(what is returned). Throws `.closed`, and `.invalidArgument` for a limit below 1.
  @_disfavoredOverload
  public func feed(after version: CommitVersion = .zero, limit: Int = 100) throws -> [ChangeEvent] {
    guard limit > 0 else { throw DatabaseError(.invalidArgument, "a limit of \(limit) events; it must be positive") }
    try core.enter()
    defer { core.leave() }
    return try core.readFeed(after: version, commitLimit: limit, rowLimit: .max).events
  }

  /// The same for tasks.
  public func feed(after version: CommitVersion = .zero, limit: Int = 100) async throws -> [ChangeEvent] {
    try await core.executor.run { [self] in try blockingFeed(version, limit) }
  }

  /// The blocking form, for where `feed` means the other.
  private func blockingFeed(_ version: CommitVersion, _ limit: Int) throws -> [ChangeEvent] {
    try feed(after: version, limit: limit)
  }

  /// The object of a row now, and again each time that an acknowledged commit has changed, touched or removed the row;
  /// nil as long as there is none.
  ///
  /// ```swift
  /// for try await note in database.observe(Note.self, key: id, in: "notes") { self.note = note }
  /// ```
  ///
  /// Only the newest counts: who is slower than commits gets what is there when it looks, not what was in between. A row
  /// that can't be decoded as the type is thrown, as everything else that keeps it from being read, and ends the
  /// iteration; another may be begun. Each iteration observes for itself. It ends when the database is closed.
  public func observe<Object: Decodable & Sendable>(
    _ type: Object.Type = Object.self, key: some KeyCodable, in collection: String
  ) -> ObjectObservation<Object> {
    ObjectObservation(core, Result { try RowKey(key, in: collection) }) { transaction in
      try transaction.object(type, key: key, in: collection)
    }
  }

  /// What changes in a collection: at first a reload, and then which rows, the changes of several commits together for
  /// a consumer that is slower.
  ///
  /// ```swift
  /// for try await change in database.observe(in: "notes") {
  ///   if change.isReload { notes = try await allNotes() } else { try await update(change.changedKeys, change.removedKeys) }
  /// }
  /// ```
  ///
  /// What the consumer reads when it gets a change is at least as new as that: reading a key again that has changed
  /// since once more is all that can happen. So keys are delivered, and not objects: the caller that shows ten rows of a million
  /// reads ten. Each iteration observes for itself. It ends when the database is closed.
  public func observe(in collection: String) -> CollectionObservation { CollectionObservation(core, collection) }

  /// What a closure reads now, and again each time that an acknowledged commit has changed what it has read; values that equal
  /// the one before are left out.
  ///
  /// ```swift
  /// for try await count in database.observe({ tx in try books.query.filter { $0.isRead }.count(in: tx) }) { show(count) }
  /// ```
  ///
  /// What is read is noted: keys and ranges of rows and of the parts of extensions, as an index is, of which more than 1,000 of
  /// a family count as all of it, and the collections that were asked for. Of an extension with shared state, and where another
  /// program writes, all rows of its scope count. The closure runs on a thread where it may
  /// wait for a disk, and on none that commits; while it runs, commits become one more run. Only the newest counts. An error
  /// that the closure throws ends the iteration. It ends when the database is closed.
  public func observe<Value: Equatable & Sendable>(
    _ read: @escaping @Sendable (ReadTransaction) throws -> Value
  ) -> ReadObservation<Value> {
    ReadObservation(core, isSame: ==, read)
  }

  /// What a closure reads now, and again each time that an acknowledged commit has changed what it has read.
  @_disfavoredOverload
  public func observe<Value: Sendable>(
    _ read: @escaping @Sendable (ReadTransaction) throws -> Value
  ) -> ReadObservation<Value> {
    ReadObservation(core, isSame: { _, _ in false }, read)
  }
}
