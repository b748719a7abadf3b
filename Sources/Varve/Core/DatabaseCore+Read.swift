/// How a read runs.
extension DatabaseCore {
  /// Runs `body` at the current snapshot, on this thread.
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

  /// Runs `body`, a read of this module's that may be run twice, if it needs to wait for nothing; nil where it would
  /// have to, and then it is to be run where waiting is allowed.
  func readAtOnce<Result>(_ collection: String, _ body: (ReadTransaction) throws -> Result) throws -> Result? {
    // A collection that has no definition yet may be given one by its first use, which is a write.
    guard !backend.isInMemory, AsyncTransaction.living(of: self) == nil,
      catalog.collection(collection)?.definition != nil
    else { return nil }
    var result: Result?
    return try backend.withoutWaiting { result = try read(body) } ? result : nil
  }

  /// Runs `body` at a snapshot.
  func read<Result>(
    at snapshot: any StorageSnapshot, _ body: (ReadTransaction) throws -> Result
  ) throws -> Result {
    let transaction = ReadTransaction(database: self, snapshot: snapshot)
    defer { transaction.end() }
    return try ThreadFrame.run(transaction, body)
  }
}
