internal import Synchronization

/// Performs the work that follows a commit after a delay: the sync of `.powerEvery`, and the end record after a sync
/// that no commit followed.
///
/// # Syncs
/// The earliest deadline counts, whichever commit it belongs to. A commit whose deadline no pending job meets submits a
/// job; a job syncs for every commit that is waiting then, even if its own deadline is later. So each pending job has
/// an earlier deadline than those before it, and there are at most as many as there are different durations in use.
///
/// Safe from any thread.
final class CommitTimers: Sendable {
  private static let endRecordNanoseconds: UInt64 = 10_000_000
  // The timers don't retain the engine, because a job must not release the last reference to it.
  private let pipeline: CommitPipeline
  private let executor: any BackgroundExecutor
  private let clock: any EngineClock
  private let syncs = Mutex(Syncs())
  /// The time until the next sync when it was last computed, or the maximum if none is due.
  ///
  /// A commit that allows at least that delay schedules no sync.
  private let nextSyncDelay = Atomic<UInt64>(.max)
  private let isEndRecordDue = Atomic<Bool>(false)
  private let isStopped = Atomic<Bool>(false)

  private struct Syncs: Sendable {
    /// A Boolean value that indicates whether a commit waits for a sync. Then the last of `jobs` runs in time.
    var isDue = false
    /// The deadlines of the pending jobs, on the engine's clock, latest first.
    var jobs: [UInt64] = []
  }

  init(_ pipeline: CommitPipeline, _ executor: any BackgroundExecutor, _ clock: any EngineClock) {
    self.pipeline = pipeline
    self.executor = executor
    self.clock = clock
  }

  /// Syncs the log at most `nanoseconds` from now, even if no further commit follows.
  @inline(__always)
  func syncLater(after nanoseconds: UInt64) {
    // A sync that is scheduled for a commit with no longer delay comes no later. Sequentially consistent, like the
    // preceding store of the visible sequence and the store in `endJob`: either that sync covers this commit, or the
    // value seen here is the maximum.
    if nextSyncDelay.load(ordering: .sequentiallyConsistent) > nanoseconds { scheduleSync(after: nanoseconds) }
  }

  @inline(never)
  private func scheduleSync(after nanoseconds: UInt64) {
    guard !isStopped.load(ordering: .acquiring) else { return }
    // If no thread could be started, no job would run in time. The next writer gets the error of the sync as well.
    guard executor.hasThreads else {
      try? pipeline.sync(.position(pipeline.log.appendedPosition), for: .program)
      return
    }
    let now = clock.now()
    let (sum, overflow) = now.addingReportingOverflow(nanoseconds)
    let deadline = overflow ? .max : sum
    let isNew = syncs.withLock { syncs in
      let isMet = syncs.jobs.last.map { $0 <= deadline } ?? false
      if !isMet { syncs.jobs.append(deadline) }
      syncs.isDue = true
      let next = syncs.jobs.last ?? deadline
      nextSyncDelay.store(next - min(next, now), ordering: .sequentiallyConsistent)
      return !isMet
    }
    guard isNew else { return }
    executor.submit("log.sync", after: nanoseconds) { [self] in
      guard endJob(deadline), !isStopped.load(ordering: .acquiring) else { return }
      syncNow(retryAfter: nanoseconds)
    }
  }

  /// Removes a job from the list. Returns whether a commit waits for a sync, and clears that state.
  private func endJob(_ deadline: UInt64) -> Bool {
    syncs.withLock { syncs in
      if let index = syncs.jobs.lastIndex(of: deadline) { syncs.jobs.remove(at: index) }
      guard syncs.isDue else { return false }
      syncs.isDue = false
      nextSyncDelay.store(.max, ordering: .sequentiallyConsistent)  // partner: `syncLater`
      return true
    }
  }

  /// Syncs the log.
  ///
  /// No caller waits here for a failure. If the engine then refuses writes, the next writer gets the error; if the log
  /// continues in a new segment soon, that segment is synced.
  private func syncNow(retryAfter nanoseconds: UInt64) {
    do throws(EngineError) {
      try pipeline.sync(.position(pipeline.log.appendedPosition), for: .background)
      endRecordLater()
    } catch {
      if error.code == .canceled { syncLater(after: min(nanoseconds, CommitPipeline.restartRetryNanoseconds)) }
    }
  }

  /// Appends an end record after a short delay, unless commits follow.
  func endRecordLater() {
    guard claim(isEndRecordDue) else { return }
    executor.submit("log.end", after: Self.endRecordNanoseconds) { [self] in
      isEndRecordDue.store(false, ordering: .sequentiallyConsistent)
      guard !isStopped.load(ordering: .acquiring) else { return }
      // An end record is only a hint to recovery: if it can't be written now, it is overwritten later.
      try? pipeline.appendEndIfIdle()
    }
  }

  func stop() { isStopped.store(true, ordering: .releasing) }

  private func claim(_ flag: borrowing Atomic<Bool>) -> Bool {
    guard !isStopped.load(ordering: .acquiring), !flag.load(ordering: .relaxed) else { return false }
    return flag.compareExchange(expected: false, desired: true, ordering: .sequentiallyConsistent).exchanged
  }
}
