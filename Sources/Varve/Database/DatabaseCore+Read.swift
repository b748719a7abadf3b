/// How a read runs.
extension DatabaseCore {
  /// Runs `body` at this instant, on this thread.
  ///
  /// Inside of a transaction of the same database on this thread it joins that one: inside of a write it sees
  /// what that has written.
  func read<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result {
    if let outer = ThreadFrame.transaction(of: self) {
      try outer.check()
      return try body(outer)
    }
    try enter()
    defer { leave() }
    let snapshot = try publication.snapshot()
    if options.follows { try catalog.refresh(snapshot) }
    return try read(at: snapshot, body)
  }

  /// Runs `body` at an instant.
  func read<Result>(
    at snapshot: any StorageSnapshot, _ body: (ReadTransaction) throws -> Result
  ) throws -> Result {
    let transaction = ReadTransaction(database: self, snapshot: snapshot)
    defer { transaction.end() }
    return try ThreadFrame.run(transaction, body)
  }
}
