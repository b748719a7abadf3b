/// Keeps the log within its bound: a family that is hardly written to must not keep the segments of all
/// others.
///
/// Where the log is longer than its bound, the active memtables that need its oldest segment are logged
/// again, if they are small, or frozen, and so flushed, if they are not. A memtable is logged again
/// whole, as one record of kind *entries*, so that it carries the family's whole part of each batch. Both
/// copies are in the log for a while; recovery takes an entry once.
///
/// # Invariants
/// 1. The old segment goes only by an edit before which the log was synced up to its end (`FlushJob`), the
///    copy included: until then the old one counts.
/// 2. At most an eighth of the bound is logged again while the log grows by its bound.
/// 3. A memtable with unlogged entries is never logged again: of their batches other families' parts are
///    in no log.
extension CommitPipeline {
  /// What was logged again in this turn of the log.
  struct LogTurn {
    var start = LogPosition.zero
    var movedBytes = 0
    /// In all turns so far.
    var totalBytes: UInt64 = 0
  }

  /// How many bytes of memtables were logged again since the engine opened. Exact between commits.
  var bytesLoggedAgain: UInt64 { turn.totalBytes }

  /// Frees the oldest segment where the log is longer than its bound. Between commits.
  @inline(never)
  func enforceLogBound(_ lead: borrowing CommitLead) {
    guard log.liveBytes > logBytesMaximum else { return }
    let oldest = log.oldestNumber
    if log.appendedPosition - turn.start >= UInt64(logBytesMaximum) {
      turn = LogTurn(start: log.appendedPosition, totalBytes: turn.totalBytes)
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

  /// Logs again, in the current segment, the little that only older ones hold, so that they can go. False
  /// where it is too much, or where something needs a flush.
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

  /// Appends a copy of the family's active memtable. False where that is not allowed or does not work:
  /// then nothing happened.
  private func logAgain(_ family: FamilyState, _ lead: borrowing CommitLead) -> Bool {
    let size = family.active(lead).usedBytes
    guard !family.hasUnlogged(lead), turn.movedBytes + size <= logBytesMaximum / 8 else { return false }
    guard family.activeSegment(lead) != log.current(lead).number else { return false }
    var entries = LoggedEntries()
    entries.add(family.active(lead), of: family.id, above: .zero)
    entries.sort()
    var builder = LogEntriesBuilder(capacity: size)
    guard entries.fill(&builder, sizeMaximum: Int.max), let first = builder.first else { return false }
    do throws(EngineError) {
      try log.makeRoom(payloadSize: builder.payload.count, waits: false, lead)
      let position = try log.append(.entries, sequence: first, payload: builder.payload.view, lead)
      // A flush that finds the segment named here syncs the log first, and the copy with it.
      family.didCopy(to: log.current(lead).number, position, lead)
    } catch {
      // The commit that came here has happened, and a flush frees the segment, too.
      return false
    }
    turn.movedBytes += size
    turn.totalBytes += UInt64(size)
    return true
  }
}
