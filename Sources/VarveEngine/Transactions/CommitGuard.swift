/// The keys and ranges that must be unchanged since a snapshot for a batch to be committed.
///
/// It provides the check of a serializable transaction to callers that track their own reads and writes.
///
/// ```swift
/// var guarding = CommitGuard(snapshot)
/// guarding.note(key, in: family)
/// try engine.submit(once: batch, guarding: guarding).wait()
/// ```
///
/// Belongs to one thread at a time.
public struct CommitGuard: ~Copyable {
  let snapshot: EngineSnapshot
  let reads = TransactionReads()

  /// Creates an empty guard for a snapshot of the engine that will commit.
  public init(_ snapshot: EngineSnapshot) { self.snapshot = snapshot }

  /// Adds a key that was read, whether it existed or not.
  public func note(_ key: [UInt8], in family: ColumnFamily) {
    reads.note(key, in: family.id, named: family.name)
  }

  /// Adds the range from `lower` (included) to `upper` (excluded) to the ranges that were read.
  ///
  /// An `upper` of `nil` means the end of the family.
  public func note(from lower: [UInt8], to upper: [UInt8]?, in family: ColumnFamily) {
    let range = reads.beginRange(in: family.id, named: family.name)
    lower.withByteView { range.setLower($0) }
    if let upper { upper.withByteView { range.setUpper($0, isExcluded: true) } }
  }
}

extension Engine {
  /// Commits a batch if the keys and ranges of `guarding` are unchanged since its snapshot, and returns when the batch
  /// is visible.
  ///
  /// Otherwise throws `.conflict` and changes nothing. Throws the other errors of `submit`. The batch is consumed.
  public func submit(
    once batch: consuming WriteBatch, guarding: borrowing CommitGuard, durability: Durability? = nil
  ) throws(EngineError) -> CommitTicket {
    try core.requireOpen()
    let condition = TransactionCheck(core, guarding.snapshot, guarding.reads)
    return try core.submit(batch, isLast: true, durability: durability, checking: condition)
  }
}
