/// The read path.
extension DatabaseCore {
  /// Runs `body` at the current snapshot, on this thread.
  ///
  /// If a transaction of the same database runs on this thread, `body` joins it: inside a write it sees what that write
  /// has written. With `isCancellable`, the read ends if the calling task is cancelled.
  func read<Result>(isCancellable: Bool = false, _ body: (ReadTransaction) throws -> Result) throws -> Result {
    if let outer = ThreadFrame.transaction(of: self) {
      try outer.check()
      return try body(outer)
    }
    try enter()
    defer { leave() }
    let snapshot = try publication.snapshot()
    if options.follows { try catalog.refresh(snapshot) }
    return try read(at: snapshot, isCancellable: isCancellable, body)
  }

  /// Runs `body` like `read(isCancellable:_:)` for a task of the program. A task that was cancelled before throws
  /// `CancellationError`.
  func readForTask<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result {
    try Task.checkCancellation()
    return try read(isCancellable: true, body)
  }

  /// Runs `body` on this thread if it can be read without waiting, and returns `nil` otherwise; the caller then runs it
  /// where waiting is allowed.
  ///
  /// `body` is a read of this module that may be run twice.
  func readAtOnce<Result>(_ collection: String, _ body: (ReadTransaction) throws -> Result) throws -> Result? {
    // The first use of a collection without a definition may give it one, which is a write.
    guard !backend.isInMemory, AsyncTransaction.living(of: self) == nil,
      catalog.collection(collection)?.definition != nil
    else { return nil }
    try Task.checkCancellation()
    var result: Result?
    return try backend.withoutWaiting { result = try read(body) } ? result : nil
  }

  func read<Result>(
    at snapshot: any StorageSnapshot, isCancellable: Bool = false, trees: RunTreeCache? = nil,
    _ body: (ReadTransaction) throws -> Result
  ) throws -> Result {
    let transaction = ReadTransaction(database: self, snapshot: snapshot, isCancellable: isCancellable)
    transaction.heldTrees = trees
    defer { transaction.end() }
    return try ThreadFrame.run(transaction, body)
  }
}
