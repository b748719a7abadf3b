internal import Synchronization

/// A range of a family, from `lower` (included) to `upper` (excluded), in which a cursor found no live key.
struct DeadRun: Sendable {
  let family: FamilyState
  /// The snapshot that the cursor read. It is retained, so that later writes can be distinguished from those that the
  /// cursor saw.
  let snapshot: EngineSnapshot
  let lower: [UInt8]
  let upper: [UInt8]
}

/// Covers a long range of dead keys with one range tombstone, after a cursor has proved that all of them are dead.
///
/// A queue that inserts at one end and deletes at the other leaves a tombstone for each deleted key. Until compaction
/// removes them, every scan to the first live key steps over all of them, and there are always more. So a cursor that
/// has passed a long run of dead keys writes a range tombstone over it when it is closed. The next cursor passes the
/// run with one seek in each source, and later flushes omit the run.
///
/// # Why readers see no difference
/// A cursor reads the whole family at one sequence number, so at that number no key lives between the ends of the
/// run. The range tombstone is an ordinary commit, with the condition that no later write lies in the run
/// (`DeadRunCheck`): the leader checks, and no other commit comes between the check and the commit. So the run is as
/// empty with the tombstone as without it. A reader at an older sequence number does not see it. The tombstone does
/// not conflict with transactions that read the run, as long as it is in a memtable
/// (`RangeTombstoneTree.beginRedundant`).
///
/// # When no tombstone is written
/// - For cursors at a caller's snapshot, because they would see dead keys that newer tombstones covered long ago, and
///   for cursors of transactions, because they see writes that no other reader sees.
/// - In families with entries that are not logged: a crash loses those, and the proof depends on them.
/// - If the check of the run would have to read tables, because a flush came between. The next cursor will pass the
///   run again.
/// - For runs that end after a key of the maximum size: no key exists at which the range could end.
/// - If the memtable or the log has no room: no write waits for this one.
/// - In families with many tables that have range tombstones of their own (`tombstoneTablesMaximum`). There
///   compaction does not remove tombstones as fast as they are written, for example if ascending tables move to the
///   bottom unread. Each further one would slow every later choice of a compaction and every later cursor, so the run
///   is scanned once more instead.
///
/// `EngineStatistics.Family.coveredRunCount` counts the tombstones by family.
///
/// # Which thread writes it
/// The thread that closes the cursor, if no commit is being led at the moment: it takes some microseconds and waits
/// for no other thread. Otherwise the writer that leads next, before its own commit. A background job would be too
/// late: in the time of a flush, a busy queue advances by a hundred thousand keys.
///
/// # Concurrency
/// Safe from any thread. The object may outlive the engine, as a cursor may, and then does nothing.
final class DeadRuns: Sendable {
  /// The number of dead keys from which a run is covered.
  let runMinimum: Int
  private let pipeline: CommitPipeline
  private let tree: Tree
  private let state = Mutex(State())

  private struct State: Sendable {
    var pending: [DeadRun] = []
    var isStopped = false
    /// Whether a family has too many tables with range tombstones, and the number of the view in which they were
    /// counted.
    var counted: [FamilyID: (view: UInt64, isFull: Bool)] = [:]
  }

  /// The number of tables with range tombstones at which a family gets no more of them.
  ///
  /// A queue, for which runs are covered, has a few: those of level 0, and those between its two ends. A family reaches
  /// 64, about nine on each of the seven levels, only if compaction does not remove tombstones as fast as they are
  /// written.
  static let tombstoneTablesMaximum = 64

  /// The number of runs that may wait. More would wait only if no thread can lead; the next cursor will pass them
  /// again.
  private static let pendingMaximum = 8

  init(runMinimum: Int, _ pipeline: CommitPipeline, _ tree: Tree) {
    self.runMinimum = runMinimum
    self.pipeline = pipeline
    self.tree = tree
  }

  /// Covers a run, if it is still dead, now or when the next leader commits.
  func cover(_ run: DeadRun) {
    if isFull(run.family) { return }
    let isTaken = state.withLock { state in
      guard !state.isStopped, state.pending.count < Self.pendingMaximum,
        !state.pending.contains(where: { $0.family === run.family })
      else { return false }
      state.pending.append(run)
      return true
    }
    guard isTaken else { return }
    pipeline.leadIfFree { commitPending($0) }
    if !state.withLock({ $0.pending.isEmpty }) { pipeline.noteBroken() }
  }

  /// Returns whether a family has too many tables with range tombstones. They are counted once for each of its views,
  /// on the cursor's thread.
  private func isFull(_ family: FamilyState) -> Bool {
    let (view, number) = family.retainNumberedView()
    guard view.version.hasRangeTombstones else { return false }
    if let counted = state.withLock({ $0.counted[family.id] }), counted.view == number { return counted.isFull }
    let count = view.version.rangeTombstoneTableCount(upTo: Self.tombstoneTablesMaximum)
    let isFull = count == Self.tombstoneTablesMaximum
    state.withLock { $0.counted[family.id] = (number, isFull) }
    return isFull
  }

  /// Commits the runs that wait. The leader calls it between two commits.
  func commitPending(_ lead: borrowing CommitLead) {
    let runs = state.withLock { state in
      defer { state.pending = [] }
      return state.pending
    }
    for run in runs { commit(run, lead) }
  }

  private func commit(_ run: DeadRun, _ lead: borrowing CommitLead) {
    let family = run.family
    guard !family.isDropped, !family.holdsUnlogged(lead), max(run.lower.count, run.upper.count) <= Limits.keySizeMaximum
    else {
      return
    }
    var payload = ByteWriter(capacity: run.lower.count + run.upper.count + 32)
    run.lower.withByteView { lower in
      run.upper.withByteView { upper in BatchFormat.append(.rangeDelete, family.id, lower, upper, to: &payload) }
    }
    guard pipeline.hasRoom(for: family, keySize: run.lower.count, valueSize: run.upper.count, payload.count, lead)
    else { return }
    let check = DeadRunCheck(run, tree)
    do throws(EngineError) {
      try pipeline.commitLeading(payload.view, CommitTerms(condition: check, isRedundant: true), lead)
      pipeline.log.metrics.counters.addCoveredRun()
      family.addCoveredRun()
    } catch {
      // The run then stays uncovered. If the error is permanent, the next writer meets it, too.
    }
  }

  /// Stops covering runs.
  func stop() {
    state.withLock { state in
      state.isStopped = true
      state.pending = []
    }
  }
}

/// The condition that a run is still dead: no write lies in it since the cursor saw it.
private final class DeadRunCheck: CommitCondition {
  private let run: DeadRun
  private let tree: Tree

  init(_ run: DeadRun, _ tree: Tree) {
    self.run = run
    self.tree = tree
  }

  func check(_ lead: borrowing CommitLead) throws(EngineError) {
    let changed = ChangedSources(run.family.retainView(), tree, above: run.snapshot.sequence)
    guard !changed.hasTables else { throw EngineError(.conflict, "the family was flushed since") }
    let range = ReadRange()
    run.lower.withByteView { range.setLower($0) }
    run.upper.withByteView { range.setUpper($0, isExcluded: true) }
    if try changed.change(in: range) != nil { throw EngineError(.conflict, "the run was written to since") }
  }
}
