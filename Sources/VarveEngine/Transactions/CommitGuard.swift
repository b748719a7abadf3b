/// What must not have changed since a snapshot for a batch to be committed: the check of a serializable
/// transaction, for those who keep reads and writes themselves.
///
/// ```swift
/// var guarding = CommitGuard(snapshot)
/// guarding.note(key, in: family)
/// try engine.submit(batch, guarding: guarding).wait()
/// ```
///
/// Belongs to one thread at a time.
public struct CommitGuard: ~Copyable {
  let snapshot: EngineSnapshot
  let reads = TransactionReads()

  /// Guards nothing yet, as of a snapshot, which must be of the engine that commits.
  public init(_ snapshot: EngineSnapshot) { self.snapshot = snapshot }

  /// A key that was read, whether it was there or not.
  public func note(_ key: [UInt8], in family: ColumnFamily) {
    reads.note(key, in: family.id, named: family.name)
  }

  /// Keys from `lower` (included) to `upper` (excluded; nil: to the end) that were walked.
  public func note(from lower: [UInt8], to upper: [UInt8]?, in family: ColumnFamily) {
    let range = reads.beginRange(in: family.id, named: family.name)
    lower.withByteView { range.setLower($0) }
    if let upper { upper.withByteView { range.setUpper($0, isExcluded: true) } }
  }
}

extension Engine {
  /// Commits a batch where nothing that `guarding` names was changed since its snapshot, and returns when it
  /// is visible. Throws `.conflict` otherwise: nothing happened then. Else like `submit`.
  public func submit(
    _ batch: borrowing WriteBatch, guarding: borrowing CommitGuard, durability: Durability? = nil
  ) throws(EngineError) -> CommitTicket {
    checkOpen()
    let condition = TransactionCheck(self, guarding.snapshot, guarding.reads)
    return try submit(batch, durability: durability, condition: condition)
  }
}
