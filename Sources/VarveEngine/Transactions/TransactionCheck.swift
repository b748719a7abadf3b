/// Checks whether another commit between a transaction's snapshot and its own commit conflicts.
///
/// # Two steps
/// 1. `precheck`, on the transaction's thread and without the lead, checks everything newer than the snapshot, in
///    memtables and tables. Other commits continue meanwhile, even if a table has to be read from disk.
/// 2. `check`, with the lead, checks what came after `precheck`. Other commits are in the memtables, including the
///    batches before this one in its own group, and no other commit happens until this batch is visible. No table is
///    read. If a table may have entries that came after `precheck`, because a whole memtable was filled and flushed
///    meanwhile, the check fails and sets `needsAnotherPrecheck`.
///
/// The snapshot is registered, so no compaction drops an entry that shows a change of a key, or gives it another
/// sequence: if entries are dropped nevertheless, the key is as the snapshot sees it.
///
/// # Concurrency
/// Created by the transaction's thread, which waits while the leader uses it.
final class TransactionCheck: CommitCondition, @unchecked Sendable {
  // Sendable: see Concurrency above.
  private let engine: EngineCore
  private let snapshot: EngineSnapshot
  private let reads: TransactionReads
  /// The state that `precheck` saw of each family.
  private var prechecked: [FamilyID: Prechecked] = [:]
  /// A Boolean value that indicates whether `check` failed only because a table would have to be read.
  private(set) var needsAnotherPrecheck = false

  private struct Prechecked {
    let view: ReadView
    /// The sequence up to which all entries were checked.
    let sequence: SequenceNumber
  }

  /// Creates a check of `reads`, or, if it is `nil`, only of the keys and ranges that `addWrites` adds.
  init(_ engine: EngineCore, _ snapshot: EngineSnapshot, _ reads: TransactionReads?) {
    self.engine = engine
    self.snapshot = snapshot
    self.reads = reads ?? TransactionReads()
  }

  /// Checks the keys and ranges that a batch writes, as well.
  func addWrites(_ batch: borrowing WriteBatch) throws(EngineError) {
    var reader = BatchReader(batch.payload.view)
    while let entry = try reader.next() {
      // A dropped family fails the whole batch before this check.
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

  /// Checks for changes since the snapshot, on the transaction's thread, before it commits. Throws `.conflict`.
  func precheck() throws(EngineError) {
    needsAnotherPrecheck = false
    for (id, reads) in reads.families {
      guard let family = engine.registry.find(id), !family.isDropped else { throw dropped(reads.name) }
      // The sequence is loaded before the view, so that every entry up to it is in the view.
      let visible = engine.pipeline.visible
      let view = family.retainView()
      try find(ChangedSources(view, engine.tree, above: snapshot.sequence), family, reads)
      prechecked[id] = Prechecked(view: view, sequence: max(visible, snapshot.sequence))
    }
  }

  func check(_ lead: borrowing CommitLead) throws(EngineError) {
    for (id, reads) in reads.families {
      guard let family = engine.registry.find(id), !family.isDropped else { throw dropped(reads.name) }
      guard let earlier = prechecked[id],
        let changed = ChangedSources(since: earlier.sequence, old: earlier.view, now: family.retainView(), engine.tree)
      else {
        needsAnotherPrecheck = true
        throw EngineError(.canceled, "a table has what came after the precheck of family \"\(family.name)\"")
      }
      try find(changed, family, reads)
    }
  }

  private func find(
    _ changed: ChangedSources, _ family: FamilyState, _ reads: TransactionReads.FamilyReads
  ) throws(EngineError) {
    if changed.isEmpty { return }
    for key in reads.keys {
      let found = try key.withByteView { (key) throws(EngineError) in try changed.change(of: key) }
      if let found { throw conflict(family, key, found) }
    }
    for range in reads.ranges {
      if let (key, sequence) = try changed.change(in: range) { throw conflict(family, key, sequence) }
    }
  }

  private func conflict(_ family: FamilyState, _ key: [UInt8], _ sequence: SequenceNumber) -> EngineError {
    TransactionConflict(family: family.name, key: key, sequence: sequence).error(snapshot: snapshot.sequence)
  }

  private func dropped(_ name: String) -> EngineError {
    TransactionConflict(family: name, key: nil, sequence: nil).error(snapshot: snapshot.sequence)
  }
}

extension EngineCore {
  /// Commits a batch if the check finds no conflict.
  ///
  /// Each round after the first means that a whole memtable of a family was filled and flushed between `precheck` and
  /// the lead: so it ends, although the number of rounds is not bounded.
  func submit(
    _ batch: borrowing WriteBatch, isLast: Bool = false, durability: Durability?, checking check: TransactionCheck
  ) throws(EngineError) -> CommitTicket {
    while true {
      try requireOpen()
      try check.precheck()
      do throws(EngineError) {
        return try submit(batch, isLast: isLast, durability: durability, condition: check)
      } catch {
        guard check.needsAnotherPrecheck else { throw error }
      }
    }
  }
}
