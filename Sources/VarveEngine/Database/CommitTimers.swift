internal import Synchronization

/// What happens some time after a commit: the sync of `.powerEvery`, and the end record after a sync
/// that nothing followed.
///
/// At most one of each waits, however many commits ask. Safe from any thread.
final class CommitTimers: Sendable {
  private static let endRecordNanoseconds: UInt64 = 10_000_000
  private let isSyncDue = Atomic<Bool>(false)
  private let isEndRecordDue = Atomic<Bool>(false)
  private let isStopped = Atomic<Bool>(false)

  /// Syncs the log `nanoseconds` from now, also when no further commit comes.
  func syncLater(_ engine: Engine, after nanoseconds: UInt64) {
    guard claim(isSyncDue) else { return }
    engine.executor.submit("log.sync", after: nanoseconds) { [self, weak engine] in
      isSyncDue.store(false, ordering: .sequentiallyConsistent)
      guard let engine, !isStopped.load(ordering: .acquiring) else { return }
      sync(engine, retryAfter: nanoseconds)
    }
  }

  /// Nobody waits here to be told of a failure. If the engine takes no more writes then, the next writer
  /// is told; if the log goes on in a new segment soon, that is synced.
  private func sync(_ engine: Engine, retryAfter nanoseconds: UInt64) {
    let pipeline = engine.pipeline
    do throws(EngineError) {
      try pipeline.sync(through: pipeline.log.appendedPlace, for: .background)
      endRecordLater(engine)
    } catch {
      if pipeline.needsRestart { syncLater(engine, after: nanoseconds) }
    }
  }

  /// Appends an end record in a moment, unless commits follow.
  func endRecordLater(_ engine: Engine) {
    guard claim(isEndRecordDue) else { return }
    engine.executor.submit("log.end", after: Self.endRecordNanoseconds) { [self, weak engine] in
      isEndRecordDue.store(false, ordering: .sequentiallyConsistent)
      guard let engine, !isStopped.load(ordering: .acquiring) else { return }
      do throws(EngineError) { try engine.pipeline.appendEndIfIdle() } catch { engine.pipeline.poison(error) }
    }
  }

  func stop() { isStopped.store(true, ordering: .releasing) }

  private func claim(_ flag: borrowing Atomic<Bool>) -> Bool {
    guard !isStopped.load(ordering: .acquiring), !flag.load(ordering: .relaxed) else { return false }
    return flag.compareExchange(expected: false, desired: true, ordering: .sequentiallyConsistent).exchanged
  }
}
