/// Whether anybody came between a transaction's snapshot and its commit.
///
/// The leader asks, with the lead: what others have committed is in the memtables, that of the batches before
/// this one in its own group included, and nobody commits until this batch is visible. Looked at is only
/// what may be newer than the snapshot: memtables and tables whose newest entry is.
///
/// The snapshot is registered, so no compaction drops, or gives another sequence to, what tells that a key
/// is not what it was: entries that are gone all the same left the key as the snapshot sees it.
///
/// # Concurrency
/// Made by the transaction's thread, which waits while the leader uses it.
final class TransactionCheck: CommitCondition, @unchecked Sendable {
  // Sendable: see Concurrency above.
  private let engine: Engine
  private let snapshot: EngineSnapshot
  private let reads: TransactionReads

  /// `reads` are checked as they are; nil: only what `addWrites` adds is.
  init(_ engine: Engine, _ snapshot: EngineSnapshot, _ reads: TransactionReads?) {
    self.engine = engine
    self.snapshot = snapshot
    self.reads = reads ?? TransactionReads()
  }

  /// Checks the keys and ranges that a batch writes, too.
  func addWrites(_ batch: borrowing WriteBatch) throws(EngineError) {
    var reader = BatchReader(batch.payload.view)
    while let entry = try reader.next() {
      // A family that is gone fails the whole batch before this is asked.
      let name = engine.registry.find(entry.family)?.name ?? ""
      if entry.kind == .rangeDelete {
        let range = reads.beginRange(in: entry.family, named: name)
        range.setLower(entry.key)
        range.setUpper(entry.value)
      } else {
        reads.note(entry.key.bytes, in: entry.family, named: name)
      }
    }
  }

  func check() throws(EngineError) {
    for (id, reads) in reads.families {
      guard let family = engine.registry.find(id), !family.isDropped else { throw dropped(reads.name) }
      let changed = ChangedSources(family.retainView(), engine.tree, above: snapshot.sequence)
      if changed.isEmpty { continue }
      for key in reads.keys {
        let found = try key.withByteView { (key) throws(EngineError) in try changed.change(of: key) }
        if let found { throw conflict(family, key, found) }
      }
      for range in reads.ranges {
        if let (key, sequence) = try changed.change(in: range) { throw conflict(family, key, sequence) }
      }
    }
  }

  private func conflict(_ family: FamilyState, _ key: [UInt8], _ sequence: SequenceNumber) -> EngineError {
    TransactionConflict(family: family.name, key: key, sequence: sequence).error(snapshot: snapshot.sequence)
  }

  private func dropped(_ name: String) -> EngineError {
    TransactionConflict(family: name, key: nil, sequence: nil).error(snapshot: snapshot.sequence)
  }
}
