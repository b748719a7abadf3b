internal import Synchronization

/// Counts what a scheduler does. Each method is called for a group of tasks, or for a task to which something unusual
/// has happened. Safe from any thread.
final class StatisticsRecorder: Sendable {
  private let state = Mutex(TaskSchedulerStatistics())

  var statistics: TaskSchedulerStatistics { state.withLock { $0 } }

  /// Notes that the end of an attempt was refused.
  func noteRefusal(of run: TaskRun) { if run.noteRefusal() { state.withLock { $0.fencedCount += 1 } } }

  /// Notes how many rows a read of subqueues has passed that were not queued.
  func noteSkipped(_ count: Int) { if count > 0 { state.withLock { $0.refillSkippedCount += count } } }

  /// Notes the duration of a commit in which attempts have begun.
  func noteClaims(_ duration: Duration) { state.withLock { $0.claims.add(duration) } }

  /// Notes how late some timers have fired.
  func noteTimers(_ late: [Duration]) {
    if late.isEmpty { return }
    state.withLock { state in
      for duration in late { state.timers.add(duration) }
    }
  }
}
