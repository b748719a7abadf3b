internal import Synchronization

/// A range of a family in which a cursor found nothing alive: from `lower` (included) to `upper` (excluded).
struct DeadRun: Sendable {
  let family: FamilyState
  /// What the cursor saw. Held, so that whatever was written since can be distinguished from what was there.
  let snapshot: EngineSnapshot
  let lower: [UInt8]
  let upper: [UInt8]
}

/// Puts one range tombstone over many keys that are dead, where a cursor has proved that they are.
///
/// A queue that lives at one end and dies at the other leaves a tombstone for each key that went. Until they
/// are compacted away, every scan to the first live key steps over all of them; and there is always
/// more to step over. So a cursor that has passed a long run writes a range tombstone over it when it ends. The next
/// one passes it with one seek in each source, and what is flushed later leaves the run out.
///
/// # Why it changes nothing
/// A cursor reads the whole family at one sequence, so there nothing lives between the ends of the run. The range
/// tombstone is an ordinary commit, with the condition that no one has written into the run since
/// (`TransactionCheck`): the leader looks, and no other commit comes between. So for every reader the run is as
/// empty with it as without; a reader at an older sequence does not see it. Transactions that read the run are notified of no
/// conflict, as long as it is in a memtable (`RangeTombstoneTree.noteRedundant`).
///
/// # What it is not done for
/// - Cursors at a snapshot of the caller's: they would see what newer ones have long covered. Cursors of
///   transactions: they see what no one else does.
/// - Families with entries that are not logged: a crash must lose those, and with them what the proof rests on.
/// - Where the run's check would have to read tables: a flush came between, and the next cursor will pass again.
/// - Runs that end after a key of the greatest size: no key is there to end a range with.
/// - Where there is no room in the memtable or the log: nothing waits for this.
/// - Families with many tables that have range tombstones of their own (`tombstoneTablesMaximum`). There tombstones
///   don't go by compaction as fast as they come, as where ascending tables move to the bottom unread: each one more
///   costs every later pick of a compaction and every later cursor, and the run is passed once more instead.
///
/// How many were put is counted by family: `EngineStatistics.Family.coveredRunCount`.
///
/// # Who does it
/// The thread that ends the cursor, if no one leads at the moment: some microseconds, and nothing to wait for. Else
/// the writer that leads next, before its own commit. A job in the background would come too late: in the
/// time of a flush a busy queue moves on by a hundred thousand keys.
///
/// # Concurrency
/// Safe from any thread. It may outlive the engine, with a cursor, and does nothing then.
final class DeadRuns: Sendable {
  /// From how many dead keys on a run is covered.
  let runMinimum: Int
  private let pipeline: CommitPipeline
  private let tree: Tree
  private let state = Mutex(State())

  private struct State: Sendable {
    var pending: [DeadRun] = []
    var isStopped = false
    /// What the tables of a family came to, and the view that they were counted in.
    var counted: [FamilyID: (view: UInt64, isFull: Bool)] = [:]
  }

  /// A family with so many tables that have range tombstones gets no more of them. A queue, for which this is done, has a
  /// few: those of level 0, and those between its two ends. 64 are ten flushes' worth on each level.
  static let tombstoneTablesMaximum = 64

  /// More wait only where no one can lead; the next cursor will pass again.
  private static let pendingMaximum = 8

  init(runMinimum: Int, _ pipeline: CommitPipeline, _ tree: Tree) {
    self.runMinimum = runMinimum
    self.pipeline = pipeline
    self.tree = tree
  }

  /// Has a run covered, if it still is one: now or by the next leader.
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

  /// Whether a family has enough tables with range tombstones. They are counted once for each of its views, by the
  /// cursor's thread.
  private func isFull(_ family: FamilyState) -> Bool {
    let (view, number) = family.retainNumberedView()
    guard view.version.hasRangeTombstones else { return false }
    if let counted = state.withLock({ $0.counted[family.id] }), counted.view == number { return counted.isFull }
    let count = view.version.rangeTombstoneTableCount(upTo: Self.tombstoneTablesMaximum)
    let isFull = count == Self.tombstoneTablesMaximum
    state.withLock { $0.counted[family.id] = (number, isFull) }
    return isFull
  }

  /// Commits what waits, between two commits.
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
      // Then it stays as it is: the caller that writes next meets the error, too, if it is one that lasts.
    }
  }

  /// Covers nothing from now on.
  func stop() {
    state.withLock { state in
      state.isStopped = true
      state.pending = []
    }
  }
}

/// Whether a run is still dead: no one has written into it since the cursor saw it.
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
