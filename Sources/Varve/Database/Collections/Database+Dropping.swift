extension Database {
  /// Drops a collection: its rows, the type of its keys, its coder, and the families of its own.
  ///
  /// Returns whether the collection existed. The next write to the name creates another collection, as the program or
  /// one of its stores has defined it, or else with the key type of its first row.
  ///
  /// Extensions are notified of its rows as of those that `removeAll(in:)` removes, and observers are notified that it
  /// was cleared. Snapshots that are held still have the collection. Compactions reclaim its space, as for any
  /// deletion; families of its own are emptied now, and are dropped when the database is next opened.
  ///
  /// Complexity: O(1) if no extension is notified of it, and O(n) otherwise. Throws `.invalidArgument` inside a
  /// transaction, the error of an extension that refuses, `.doesNotSettle` if an extension wrote rows to it meanwhile
  /// (those rows and the collection remain), and what `write` throws.
  @_disfavoredOverload
  @discardableResult
  public func dropCollection(_ name: String) throws -> Bool { try core.dropCollection(name) }

  /// Drops a collection without blocking the task's thread: see the synchronous form.
  @discardableResult
  public func dropCollection(_ name: String) async throws -> Bool {
    let core = core
    return try await core.writerExecutor.run { try core.dropCollection(name) }
  }
}

extension DatabaseCore {
  /// Removes the rows, and then, after that commit and with the writer still held, the collection's record. Like every
  /// change of the catalog's numbers, the latter is a commit of its own. A crash between the two commits leaves a
  /// collection without rows.
  func dropCollection(_ name: String) throws -> Bool {
    try requireNoTransaction("collection \"\(name)\" is dropped")
    var outcome: Result<Bool, any Error> = .success(false)
    try write(WriteTerms(label: "drop \(name)")) { transaction in
      guard let info = try transaction.info(name) else { return }
      try transaction.removeAll(in: name)
      transaction.onApplied { [self] _ in
        outcome = Result {
          try requireEmpty(info)
          try catalog.drop(info)
          return true
        }
      }
    }
    return try outcome.get()
  }

  /// Throws `.doesNotSettle` unless the collection is empty as of the last commit, which the caller can already see.
  private func requireEmpty(_ info: CollectionInfo) throws {
    let count = try backend.snapshot().value(of: info.countKey, in: catalog.families.counts)
    guard count.flatMap(StorageBatch.counterNumber) ?? 0 == 0 else {
      throw DatabaseError(
        .doesNotSettle, "an extension has written rows to it while it was dropped: they stay, and so does it",
        collection: info.name)
    }
  }
}
