extension Database {
  /// Drops a collection: its rows, the type of its keys, its coder, and families of its own. The next write to the name
  /// makes another one, as the program or one of its stores has defined it, else with the key type of its first row.
  /// Returns whether there was one.
  ///
  /// Extensions hear of its rows as of those that `removeAll(in:)` removes, and observers hear that it was cleared.
  /// Instants that are held go on having it. Space is given back by compactions, as everywhere; families of its own are
  /// empty from now on, and gone with the next open.
  ///
  /// Complexity: O(1) where no extension is notified of it; else O(n). Throws `.invalidArgument` inside of a transaction, what
  /// an extension throws that refuses, `.doesNotSettle` where one has written rows to it meanwhile (those stay, and so
  /// does it), and what `write` throws.
  @_disfavoredOverload
  @discardableResult
  public func dropCollection(_ name: String) throws -> Bool { try core.dropCollection(name) }

  /// The same for tasks.
  @discardableResult
  public func dropCollection(_ name: String) async throws -> Bool {
    let core = core
    return try await core.writerExecutor.run { try core.dropCollection(name) }
  }
}

extension DatabaseCore {
  /// Removes the rows, and with the writer still held, after that commit, what the catalog has: as all numbers of the
  /// catalog it changes in a commit of its own. A crash between the two leaves a collection without rows.
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

  /// As of the last commit, the caller that can see that already.
  private func requireEmpty(_ info: CollectionInfo) throws {
    let count = try backend.snapshot().value(of: info.countKey, in: catalog.families.counts)
    guard count.flatMap(StorageBatch.counterNumber) ?? 0 == 0 else {
      throw DatabaseError(
        .doesNotSettle, "an extension has written rows to it while it was dropped: they stay, and so does it",
        collection: info.name)
    }
  }
}
