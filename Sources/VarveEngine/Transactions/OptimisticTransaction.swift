/// Reads from one snapshot, and writes that are committed together if no other commit conflicts.
///
/// ```swift
/// let total = try engine.transaction { transaction in
///   let old = try transaction.get(key) ?? [0]
///   try transaction.put(key, [old[0] + 1])
///   return old[0] + 1
/// }
/// ```
///
/// A transaction takes no locks. It reads from a snapshot and sees its own writes over it. The commit compares what a
/// `.serializable` transaction read, or what a `.snapshot` transaction writes, with what other commits changed after
/// the snapshot. On a conflict, `commit` throws `.conflict` with a `TransactionConflict` as its cause and changes
/// nothing; run the transaction again, as `Engine.transaction` does.
///
/// Complexity of a commit: for each key a search in the entries written after the snapshot, for each range an iteration
/// of the part of it that was written. The commit reads tables for this before it leads, while other commits continue;
/// while it leads, it reads only memtables that were written after that.
///
/// A transaction belongs to one thread at a time.
public struct OptimisticTransaction: ~Copyable {
  /// The isolation level.
  public let isolation: TransactionIsolation
  private let engine: EngineCore
  private let snapshot: EngineSnapshot
  private let reads = TransactionReads()
  private var writes: IndexedWriteBatch

  init(_ engine: EngineCore, _ isolation: TransactionIsolation) {
    self.engine = engine
    self.isolation = isolation
    snapshot = engine.makeSnapshot()
    writes = IndexedWriteBatch(engine, snapshot: snapshot)
  }

  /// The last commit that the transaction sees.
  public var sequence: SequenceNumber { snapshot.sequence }

  /// The number of entries that it has written.
  public var writeCount: Int { writes.count }

  // MARK: - Reading

  /// Returns the value of a key as the transaction sees it, or nil. Throws the errors of `Engine.get`.
  public func get(_ key: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) -> [UInt8]? {
    if isolation == .serializable, !writes.decides(key, in: family) {
      let state = engine.state(of: family)
      reads.note(key, in: state.id, named: state.name)
    }
    return try writes.get(key, in: family)
  }

  /// Returns whether a key has a value, as the transaction sees it.
  public func contains(_ key: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) -> Bool {
    try get(key, in: family) != nil
  }

  /// Returns a cursor over the entries that the transaction sees now.
  ///
  /// In a serializable transaction, the ranges that the cursor iterates count as read, including the gaps between keys.
  public mutating func cursor(
    in family: ColumnFamily? = nil, bounds: CursorBounds = .all
  ) throws(EngineError) -> TransactionCursor {
    TransactionCursor(
      try writes.cursor(in: family, bounds: bounds), bounds, isolation == .serializable ? reads : nil,
      engine.state(of: family))
  }

  // MARK: - Writing

  /// Sets the value of a key. Throws like `WriteBatch.put`.
  public mutating func put(_ key: [UInt8], _ value: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    try writes.put(key, value, in: family)
  }

  /// Removes a key. Throws like `WriteBatch.delete`.
  public mutating func delete(_ key: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    try writes.delete(key, in: family)
  }

  /// Removes a key that was put exactly once: see `WriteBatch.singleDelete`.
  public mutating func singleDelete(_ key: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    try writes.singleDelete(key, in: family)
  }

  /// Removes all keys from `lower` (included) to `upper` (excluded): see `WriteBatch.deleteRange`.
  public mutating func deleteRange(
    from lower: [UInt8], to upper: [UInt8], in family: ColumnFamily? = nil
  ) throws(EngineError) {
    try writes.deleteRange(from: lower, to: upper, in: family)
  }

  /// Adds an operand for the family's merge operator, which is not a read. Throws like `WriteBatch.merge`.
  public mutating func merge(_ key: [UInt8], _ operand: [UInt8], in family: ColumnFamily? = nil) throws(EngineError) {
    try writes.merge(key, operand, in: family)
  }

  /// Sets the value of a key, with the commit's sequence in it: see `WriteBatch.putStamped`.
  public mutating func putStamped(
    _ key: [UInt8], _ value: [UInt8], at location: StampLocation, in family: ColumnFamily? = nil
  ) throws(EngineError) {
    try writes.putStamped(key, value, at: location, in: family)
  }

  /// Sets a savepoint for the writes. Reads stay recorded.
  public mutating func setSavepoint() { writes.setSavepoint() }

  /// Undoes all writes since the last savepoint, and removes the savepoint. Throws `.invalidArgument` if none is set.
  public mutating func rollbackToSavepoint() throws(EngineError) { try writes.rollbackToSavepoint() }

  /// Removes the last savepoint and keeps its writes. Throws `.invalidArgument` if none is set.
  public mutating func releaseSavepoint() throws(EngineError) { try writes.releaseSavepoint() }

  // MARK: - Commit

  /// Commits, or throws `.conflict` and changes nothing if another commit conflicts.
  ///
  /// A transaction that goes out of scope without `commit` is rolled back.
  ///
  /// Returns the sequence number of its last entry. For a transaction without writes it is that of its snapshot,
  /// because its reads need no check. Throws the errors of `Engine.write`.
  @discardableResult
  public consuming func commit(durability: Durability? = nil) throws(EngineError) -> SequenceNumber {
    let batch = try writes.makeBatch()
    guard !batch.isEmpty else { return snapshot.sequence }
    let start = OperationLatencies.isSample(engine.pipeline.visible) ? engine.beginTimed() : 0
    defer { if start != 0 { engine.endTimed(.transaction, from: start) } }
    let condition = TransactionCheck(engine, snapshot, isolation == .serializable ? reads : nil)
    if isolation == .snapshot { try condition.addWrites(batch) }
    let ticket = try engine.submit(batch, isLast: true, durability: durability, checking: condition)
    try ticket.wait()
    return ticket.sequence
  }
}

extension Engine {
  /// Begins a transaction that reads from the current state.
  public func beginTransaction(isolation: TransactionIsolation = .serializable) -> OptimisticTransaction {
    core.checkOpen()
    return OptimisticTransaction(core, isolation)
  }

  /// Runs `body` in a transaction and commits it; repeats this after each conflict, at most `attempts` times.
  ///
  /// Returns the result of the last run of `body`. Throws the error of `body`, without committing; `.conflict` if the
  /// last attempt had a conflict; and the other errors of `commit`. `body` can run several times, so it should only
  /// read and write through the transaction.
  public func transaction<R>(
    isolation: TransactionIsolation = .serializable, durability: Durability? = nil, attempts: Int = 32,
    _ body: (inout OptimisticTransaction) throws -> R
  ) throws -> R {
    guard attempts > 0 else { throw EngineError(.invalidArgument, "attempts is \(attempts); it must be 1 at least") }
    var attempt = 1
    while true {
      try core.requireOpen()
      var transaction = OptimisticTransaction(core, isolation)
      let result = try body(&transaction)
      do throws(EngineError) {
        try transaction.commit(durability: durability)
        return result
      } catch {
        if error.code != .conflict || attempt == attempts { throw error }
      }
      attempt += 1
    }
  }
}
