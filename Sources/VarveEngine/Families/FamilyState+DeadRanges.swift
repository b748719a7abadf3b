internal import CVarve
internal import Synchronization

extension FamilyState {
  /// Remembers a run of dead keys that a reader at a sequence number passed in a view (`DeadRanges`).
  ///
  /// Readers at that number then skip it. Newer ones do if the memtables have no newer entry in the run, and the view's
  /// tables have none at all and are still those of the family. Otherwise the next reader passes the run again: in
  /// other tables, entries may have lost their sequences.
  ///
  /// Complexity: O(chunks of tables), and linear in the memtables' entries within the run if they have newer ones.
  func remember(_ run: DeadRunMeter.Run, at sequence: SequenceNumber, in view: ReadView, _ tree: Tree) {
    guard run.count >= DeadRanges.runMinimum, let number = beginDeadRange(run, at: sequence) else { return }
    // A write that was not passed on to `deadRanges` is in the memtable from here on (`MemTable.didInsert`).
    deadRanges.confirm(number, isUnchanged: Self.passBarrier() && isUnchanged(run, since: sequence, view, tree))
  }

  /// Orders what this thread did before the inserts that other threads begin afterwards, and their earlier inserts
  /// before what this thread does afterwards. Returns false if the system can't.
  private static func passBarrier() -> Bool {
    #if os(Linux)
      return hasThreadBarrier && cvarve_barrier_threads()
    #else
      atomicMemoryFence(ordering: .sequentiallyConsistent)
      return true
    #endif
  }

  #if os(Linux)
    private static let hasThreadBarrier = cvarve_has_thread_barrier()
  #endif

  private func isUnchanged(
    _ run: DeadRunMeter.Run, since sequence: SequenceNumber, _ view: ReadView, _ tree: Tree
  ) -> Bool {
    let now = retainView()
    guard now.version === view.version else { return false }
    let changed = ChangedSources(now, tree, above: sequence)
    if changed.hasTables { return false }
    if changed.isEmpty { return true }
    let range = ReadRange()
    run.lower.withByteView { range.setLower($0) }
    run.upper.withByteView { range.setUpper($0, isExcluded: true) }
    do throws(EngineError) { return try changed.change(in: range) == nil } catch { return false }
  }
}
