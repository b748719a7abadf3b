internal import Synchronization

/// Flushes memtables whose deletes free much, once they have had no deletes for a while, or have kept some for long.
///
/// A delete frees space only when a compaction merges it with what it hides, so not before its flush. A memtable that
/// no write fills would keep that from happening: thirty thousand deletes take a megabyte of it, and may hide all
/// tables.
///
/// # Cost
/// A put pays nothing: a memtable notes its newest delete, and the first one sets the timer. The timer runs as long as
/// memtables with deletes change; then each of them is sampled once, until it gets another delete. One that gets
/// deletes all the time is sampled at each fourth look.
///
/// # Concurrency
/// One timer at a time. Whether a memtable has deletes is read and changed by the leader.
extension BackgroundWork {
  /// The time between two looks. A memtable with the same newest delete at two of them had none for that time.
  private static let deleteLookNanoseconds: UInt64 = 30_000_000_000
  /// The number of looks after which a memtable is sampled although it has new deletes.
  private static let deleteLookMaximum = 4
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

  /// What a look found.
  struct SeenDeletes: Sendable {
    let newest: SequenceNumber
    /// The number of looks since the memtable got its first delete, or was sampled.
    var lookCount: Int
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
    let due = state.withLock { state in
      var seen: [FamilyID: SeenDeletes] = [:]
      let due = found.filter { one in
        let before = state.seenDeletes[one.family.id]
        let lookCount = (before?.lookCount ?? 0) + 1
        let isDue = before?.newest == one.newest || lookCount >= Self.deleteLookMaximum
        seen[one.family.id] = SeenDeletes(newest: one.newest, lookCount: isDue ? 0 : lookCount)
        return isDue
      }
      state.seenDeletes = seen
      return due
    }
    settle(due, leaving: Set(due.filter { !hidesMuch($0) }.map(\.family.id)))
  }

  /// Returns the active memtables that have deletes that no look has settled, or `nil` if there is a leader.
  private func memTablesWithDeletes() -> [MemTableWithDeletes]? {
    var found: [MemTableWithDeletes]?
    pipeline.leadIfFree { lead in
      var all: [MemTableWithDeletes] = []
      for family in registry.all {
        let table = family.state.active(lead)
        guard table.hasDeletes else { continue }
        all.append(MemTableWithDeletes(family: family, table: table, newest: table.newestDelete))
      }
      found = all
    }
    return found
  }

  /// Freezes memtables that were sampled, except those of the families in `leaving`, which are not looked at again
  /// before their next delete.
  private func settle(_ sampled: [MemTableWithDeletes], leaving: Set<FamilyID>) {
    if sampled.isEmpty || isClosing { return }
    pipeline.leadIfFree { lead in
      for one in sampled {
        let table = one.family.state.active(lead)
        guard table === one.table else { continue }
        if !leaving.contains(one.family.id) {
          pipeline.memory.freeze(one.family.state, lead)
        } else if table.newestDelete == one.newest {
          table.forgetDeletes()
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
