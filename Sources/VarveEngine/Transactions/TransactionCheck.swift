/// Whether anybody came between a transaction's snapshot and its commit.
///
/// # Two steps
/// 1. `look`, on the transaction's thread and without the lead: everything that is newer than the snapshot, memtables
///    and tables. Other commits go on meanwhile, also where a table has to be read from the disk.
/// 2. `check`, with the lead: what came after the look. What others have committed is in the memtables, that of the
///    batches before this one in its own group included, and no one commits until this batch is visible. No table is
///    read. Where a table may hold what came after the look, since a whole memtable was filled and flushed meanwhile, the
///    check fails and `needsAnotherLook`.
///
/// The snapshot is registered, so no compaction drops, or gives another sequence to, what tells that a key
/// is not what it was: entries that are gone all the same left the key as the snapshot sees it.
///
/// # Concurrency
/// Made by the transaction's thread, which waits while the leader uses it.
final class TransactionCheck: CommitCondition, @unchecked Sendable {
  // Sendable: see Concurrency above.
  private let engine: EngineCore
  private let snapshot: EngineSnapshot
  private let reads: TransactionReads
  /// What `look` saw of each family.
  private var looks: [FamilyID: Look] = [:]
  /// Whether `check` failed only because a table would have to be read.
  private(set) var needsAnotherLook = false

  private struct Look {
    let view: ReadView
    /// Everything up to here was looked at.
    let sequence: SequenceNumber
  }

  /// `reads` are checked as they are; nil: only what `addWrites` adds is.
  init(_ engine: EngineCore, _ snapshot: EngineSnapshot, _ reads: TransactionReads?) {
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

  /// Looks for what came since the snapshot. The transaction's thread, before it commits. Throws `.conflict`.
  func look() throws(EngineError) {
    needsAnotherLook = false
    for (id, reads) in reads.families {
      guard let family = engine.registry.find(id), !family.isDropped else { throw dropped(reads.name) }
      // Loaded before the view: everything up to it is in the view.
      let visible = engine.pipeline.visible
      let view = family.retainView()
      try find(ChangedSources(view, engine.tree, above: snapshot.sequence), family, reads)
      looks[id] = Look(view: view, sequence: max(visible, snapshot.sequence))
    }
  }

  func check(_ lead: borrowing CommitLead) throws(EngineError) {
    for (id, reads) in reads.families {
      guard let family = engine.registry.find(id), !family.isDropped else { throw dropped(reads.name) }
      guard let look = looks[id],
        let changed = ChangedSources(since: look.sequence, old: look.view, now: family.retainView(), engine.tree)
      else {
        needsAnotherLook = true
        throw EngineError(.canceled, "a table has what came after the look at family \"\(family.name)\"")
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
  /// Commits a batch where the check finds no conflict.
  ///
  /// Each round after the first means that a whole memtable of a family was filled and flushed between the look and the
  /// lead: so it ends, though no one can say after how many.
  func submit(
    _ batch: borrowing WriteBatch, isLast: Bool = false, durability: Durability?, checking check: TransactionCheck
  ) throws(EngineError) -> CommitTicket {
    while true {
      try requireOpen()
      try check.look()
      do throws(EngineError) {
        return try submit(batch, isLast: isLast, durability: durability, condition: check)
      } catch {
        guard check.needsAnotherLook else { throw error }
      }
    }
  }
}
