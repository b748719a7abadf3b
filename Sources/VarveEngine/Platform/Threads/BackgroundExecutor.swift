/// Runs the engine's background work: flushes, compactions, syncs on a timer, deletions.
///
/// The engine never assumes that a job runs at once, on another thread, or in the order of submission, only that it
/// runs eventually unless `shutDown` is called first. The default is a pool of threads (`ThreadPool`); tests pass an
/// executor that is stepped by a seed.
///
/// Safe from any thread.
public protocol BackgroundExecutor: AnyObject, Sendable {
  /// Runs `body` eventually. `name` is for messages and traces.
  func submit(_ name: String, priority: BackgroundPriority, _ body: @escaping @Sendable () -> Void)
  /// Runs `body` once at least `nanoseconds` have passed on the engine's clock.
  func submit(_ name: String, after nanoseconds: UInt64, _ body: @escaping @Sendable () -> Void)
  /// The number of jobs that may run in parallel.
  var parallelism: Int { get }
  /// Whether jobs run even if no thread is in `wait`. The default is true.
  var hasThreads: Bool { get }
  /// Runs or waits for jobs until `condition` returns true, which is how a thread waits for background work.
  ///
  /// A stepped executor runs jobs on the calling thread here. `condition` is called again after each job and each
  /// `wakeWaiters`.
  func wait(until condition: @Sendable () -> Bool)
  /// Makes every `wait` check its condition again.
  func wakeWaiters()
  /// Waits for running jobs, drops those that have not begun, and ends the threads.
  func shutDown()
}

extension BackgroundExecutor {
  /// Whether jobs run even if no thread is in `wait`. The default is true.
  public var hasThreads: Bool { true }
}

/// The priority of a job among those that wait.
public enum BackgroundPriority: Int, Sendable, Comparable, CaseIterable {
  /// The priority of compactions, for which all other jobs go first.
  case low
  /// The priority of deletions and maintenance of the log.
  case normal
  /// The priority of flushes, for which writers wait.
  case high
  /// The priority of short jobs for which a writer is about to wait: the log's next segment, a memtable's next pages.
  /// They must not wait for a flush.
  case immediate

  /// Returns whether `left` is less urgent than `right`.
  public static func < (left: BackgroundPriority, right: BackgroundPriority) -> Bool {
    left.rawValue < right.rawValue
  }
}
