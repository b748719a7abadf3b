internal import Synchronization

/// Keeps the log within its bound: a rarely written family must not retain the segments of all others.
///
/// If the log exceeds its bound, the active memtables that need its oldest segment are logged again if they are small;
/// otherwise they are frozen, and so flushed. A memtable is logged again whole, as one record of kind *entries*, so
/// that it contains the family's complete part of each batch. Both copies are in the log for a while; recovery applies
/// an entry once.
///
/// # Invariants
/// 1. The old segment is removed only by an edit before which the log, including the copy, was synced to its end
///    (`FlushJob`); until then the old segment counts.
/// 2. At most an eighth of the bound is logged again while the log grows by its bound.
/// 3. A memtable with unlogged entries is never logged again: other families' parts of those batches are in no log.
/// 4. The edit that frees the old segment names a commit at or after `copiedThrough` as its last sequence. A reader in
///    another process that begins at the oldest segment of an edit reads the log at least up to the edit's last
///    sequence, and so it reads each copy whose original the edit freed.
extension CommitPipeline {
  /// Bytes logged again since the log last grew by its bound.
  struct LogCycle {
    var start = LogPosition.zero
    var movedBytes = 0
    /// Bytes logged again since the engine opened.
    var totalBytes: UInt64 = 0
  }

  /// The last commit in the log before the last copy.
  ///
  /// Loaded by a flush after it has found the oldest segment that is needed: `logAgain` stores it before the family
  /// needs the copy instead of the original.
  var copiedThrough: SequenceNumber { SequenceNumber(copiedWord.load(ordering: .acquiring)) }

  /// Bytes of memtables logged again since the engine opened. Exact between commits.
  var bytesLoggedAgain: UInt64 { logCycle.totalBytes }

  /// Frees the oldest segment if the log exceeds its bound. Call between commits.
  @inline(never)
  func enforceLogBound(_ lead: borrowing CommitLead) {
    guard log.neededBytes > logBytesMaximum else { return }
    let oldest = log.oldestNumber
    if log.appendedPosition - logCycle.start >= UInt64(logBytesMaximum) {
      logCycle = LogCycle(start: log.appendedPosition, totalBytes: logCycle.totalBytes)
    }
    var hasMoved = false
    for family in families.all where family.state.activeSegment(lead) == oldest {
      if logAgain(family.state, lead) {
        hasMoved = true
      } else {
        memory.freeze(family.state, lead)
      }
    }
    if hasMoved { requestRelease() }
  }

  /// Logs again, in the current segment, the few entries that only older segments contain, so that those can be
  /// removed. Returns false if there are too many, or if a family needs a flush.
  func gatherLog(_ lead: borrowing CommitLead) -> Bool {
    let current = log.current(lead).number
    for family in families.all {
      let state = family.state
      guard let oldest = state.oldestSegment, oldest != current else { continue }
      guard state.frozen.isEmpty, state.active(lead).usedBytes <= Self.gatheredBytesMaximum, logAgain(state, lead)
      else {
        return false
      }
    }
    return families.all.allSatisfy { $0.state.oldestSegment ?? current == current }
  }

  private static var gatheredBytesMaximum: Int { Limits.logSegmentSizeMinimum / 4 }

  /// Appends a copy of the family's active memtable. Returns false, without any effect, if that is not allowed or
  /// fails.
  private func logAgain(_ family: FamilyState, _ lead: borrowing CommitLead) -> Bool {
    let size = family.active(lead).usedBytes
    guard !family.hasUnlogged(lead), logCycle.movedBytes + size <= logBytesMaximum / 8 else { return false }
    guard family.activeSegment(lead) != log.current(lead).number else { return false }
    var entries = LoggedEntries()
    entries.add(family.active(lead), of: family.id, above: .zero)
    entries.sort()
    var builder = LogEntriesBuilder(capacity: size)
    guard entries.fill(&builder, sizeMaximum: Int.max), let first = builder.first else { return false }
    do throws(EngineError) {
      try log.makeRoom(payloadSize: builder.payload.count, waits: false, .none, lead)
      let position = try log.append(.entries, sequence: first, payload: builder.payload.view, lead)
      copiedWord.store(lastLogged(lead).value, ordering: .releasing)  // partner: `copiedThrough`
      // A flush that finds the segment named here syncs the log first, and with it the copy.
      family.didCopy(to: log.current(lead).number, position, lead)
    } catch {
      // The error is not reported: the commit that led here has succeeded, and a flush frees the segment as well.
      return false
    }
    logCycle.movedBytes += size
    logCycle.totalBytes += UInt64(size)
    return true
  }
}
