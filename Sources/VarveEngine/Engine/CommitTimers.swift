internal import Synchronization

/// What happens some time after a commit: the sync of `.powerEvery`, and the end record after a sync
/// that nothing followed.
///
/// At most one of each waits, however many commits ask. Safe from any thread.
final class CommitTimers: Sendable {
  private static let endRecordNanoseconds: UInt64 = 10_000_000
  // Not the engine: a job must not be what lets the last reference to it go.
  private let pipeline: CommitPipeline
  private let executor: any BackgroundExecutor
  private let isSyncDue = Atomic<Bool>(false)
  private let isEndRecordDue = Atomic<Bool>(false)
  private let isStopped = Atomic<Bool>(false)

  init(_ pipeline: CommitPipeline, _ executor: any BackgroundExecutor) {
    self.pipeline = pipeline
    self.executor = executor
  }

  /// Syncs the log `nanoseconds` from now, also when no further commit comes.
  func syncLater(after nanoseconds: UInt64) {
    guard claim(isSyncDue) else { return }
    executor.submit("log.sync", after: nanoseconds) { [self] in
      isSyncDue.store(false, ordering: .sequentiallyConsistent)
      guard !isStopped.load(ordering: .acquiring) else { return }
      sync(retryAfter: nanoseconds)
    }
  }

  /// Nobody waits here to be told of a failure. If the engine takes no more writes then, the next writer
  /// is told; if the log continues in a new segment soon, that is synced.
  private func sync(retryAfter nanoseconds: UInt64) {
    do throws(EngineError) {
      try pipeline.sync(.position(pipeline.log.appendedPosition), for: .background)
      endRecordLater()
    } catch {
      if error.code == .canceled { syncLater(after: nanoseconds) }
    }
  }

  /// Appends an end record in a moment, unless commits follow.
  func endRecordLater() {
    guard claim(isEndRecordDue) else { return }
    executor.submit("log.end", after: Self.endRecordNanoseconds) { [self] in
      isEndRecordDue.store(false, ordering: .sequentiallyConsistent)
      guard !isStopped.load(ordering: .acquiring) else { return }
      // It tells recovery more, and nothing depends on it: a record that can't be written now is overwritten.
      try? pipeline.appendEndIfIdle()
    }
  }

  func stop() { isStopped.store(true, ordering: .releasing) }

  private func claim(_ flag: borrowing Atomic<Bool>) -> Bool {
    guard !isStopped.load(ordering: .acquiring), !flag.load(ordering: .relaxed) else { return false }
    return flag.compareExchange(expected: false, desired: true, ordering: .sequentiallyConsistent).exchanged
  }
}
