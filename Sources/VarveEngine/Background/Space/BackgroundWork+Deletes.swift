internal import Synchronization

/// Flushes memtables whose deletes free much, once they have had no writes for a while.
///
/// A delete frees space only when a compaction merges it with what it hides, so not before its flush. A memtable that
/// no write fills would keep that from happening: thirty thousand deletes take a megabyte of it, and may hide all
/// tables.
///
/// # Cost
/// A commit pays nothing: a memtable notes its first delete, which sets the timer. The timer runs as long as memtables
/// with deletes change; then each of them is sampled once, until it gets another delete.
///
/// # Concurrency
/// One timer at a time. Whether a memtable has deletes is read and changed by the leader.
extension BackgroundWork {
  /// The time between two looks. A memtable that is the same at two of them had no write for that time.
  private static let deleteLookNanoseconds: UInt64 = 30_000_000_000
  /// The share of a family's tables that the deletes of a memtable must hide for it to be flushed, as a divisor.
  private static let shadowedShare: UInt64 = 20
  /// The bytes that the deletes must hide: a flush and a compaction take some blocks of the device themselves.
  private static let shadowedMinimum: UInt64 = 64 << 10

  /// A memtable that had deletes at a look.
  struct MemTableWithDeletes: Sendable {
    let family: ColumnFamily
    let table: MemTable
    let newest: SequenceNumber
  }

  /// Looks at memtables that have deletes from now on, beginning with those of a replay.
  func startLookingAtDeletes() {
    // Without compactions, a flush would free nothing.
    guard options.compactsInBackground else { return }
    pipeline.memory.onDelete { [weak self] in self?.lookAtDeletesLater() }
    if memTablesWithDeletes()?.isEmpty != true { lookAtDeletesLater() }
  }

  /// Looks at the memtables that have deletes after a while. Called by a memtable at its first delete, and by the
  /// timer.
  private func lookAtDeletesLater() {
    let shouldSubmit = state.withLock { state in
      guard !state.isDeleteLookSet, !state.isClosing else { return false }
      state.isDeleteLookSet = true
      return true
    }
    guard shouldSubmit else { return }
    executor.submit("deletes.look", after: Self.deleteLookNanoseconds) { [weak self] in
      guard let self, !isClosing else { return }
      lookAtDeletes()
      // The timer counted as set during the look, so a memtable that got its first delete then did not set it.
      state.withLock { $0.isDeleteLookSet = false }
      if memTablesWithDeletes()?.isEmpty != true { lookAtDeletesLater() }
    }
  }

  private func lookAtDeletes() {
    guard let found = memTablesWithDeletes() else { return }
    let before = state.withLock { state in
      defer { state.seenDeletes = Dictionary(uniqueKeysWithValues: found.map { ($0.family.id, $0.newest) }) }
      return state.seenDeletes
    }
    let quiet = found.filter { before[$0.family.id] == $0.newest }
    settle(quiet, leaving: Set(quiet.filter { !hidesMuch($0) }.map(\.family.id)))
  }

  /// Returns the active memtables that have deletes that no look has settled, or `nil` if there is a leader.
  private func memTablesWithDeletes() -> [MemTableWithDeletes]? {
    var found: [MemTableWithDeletes]?
    pipeline.leadIfFree { lead in
      var all: [MemTableWithDeletes] = []
      for family in registry.all {
        let table = family.state.active(lead)
        guard table.hasDeletes else { continue }
        all.append(MemTableWithDeletes(family: family, table: table, newest: table.largestSequence))
      }
      found = all
    }
    return found
  }

  /// Freezes the memtables of `quiet` that have not changed, except those of the families in `leaving`, which are not
  /// looked at again before their next delete.
  private func settle(_ quiet: [MemTableWithDeletes], leaving: Set<FamilyID>) {
    if quiet.isEmpty || isClosing { return }
    pipeline.leadIfFree { lead in
      for one in quiet {
        let table = one.family.state.active(lead)
        guard table === one.table, table.largestSequence == one.newest else { continue }
        if leaving.contains(one.family.id) {
          table.forgetDeletes()
        } else {
          pipeline.memory.freeze(one.family.state, lead)
        }
      }
    }
  }

  /// Returns whether the deletes of a memtable hide so much of its family's tables that it is flushed.
  private func hidesMuch(_ one: MemTableWithDeletes) -> Bool {
    let version = one.family.state.version
    let size = version.totalSize
    guard size > Self.shadowedMinimum else { return false }
    let estimate = ShadowEstimate(
      over: version, tree, openTableMaximum: plan.openTableCount, countsCovered: true)
    // Without an estimate the memtable stays, as it would without deletes.
    guard let shadowed = estimate.size(of: one.table) else { return false }
    return shadowed > max(size / Self.shadowedShare, Self.shadowedMinimum)
  }
}
