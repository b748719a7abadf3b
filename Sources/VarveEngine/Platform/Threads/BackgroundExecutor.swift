/// Where the engine's background work runs: flushes, compactions, syncs on a timer, deletions.
///
/// The engine never assumes that a job runs at once, on another thread, or in the order of
/// submission; only that it runs some time unless `cancelAll` comes first. The default is a pool of
/// threads (`ThreadPool`); tests pass one that is stepped by a seed.
///
/// Safe from any thread.
public protocol BackgroundExecutor: AnyObject, Sendable {
  /// Runs `body` some time. `name` is for messages and traces.
  func submit(_ name: String, priority: BackgroundPriority, _ body: @escaping @Sendable () -> Void)
  /// Runs `body` when at least `nanoseconds` have passed on the engine's clock.
  func submit(_ name: String, after nanoseconds: UInt64, _ body: @escaping @Sendable () -> Void)
  /// How many jobs may run side by side.
  var parallelism: Int { get }
  /// Whether jobs run although no thread is in `wait`. Default true.
  var hasThreads: Bool { get }
  /// Runs or waits for jobs until `condition` is true: how a thread waits for background work. A
  /// stepped executor runs jobs on the calling thread here. `condition` is called again after each
  /// job and each `wakeWaiters`.
  func wait(until condition: @Sendable () -> Bool)
  /// Lets every `wait` look at its condition again.
  func wakeWaiters()
  /// Waits for the jobs that run, drops those that don't yet, and ends the threads.
  func shutDown()
}

extension BackgroundExecutor {
  /// Jobs run by themselves.
  public var hasThreads: Bool { true }
}

/// Which job goes first where several wait.
public enum BackgroundPriority: Int, Sendable, Comparable, CaseIterable {
  /// Compactions: they may wait for everything else.
  case low
  /// Deletions and maintenance of the log.
  case normal
  /// Flushes: writers wait for them.
  case high
  /// Short jobs that a writer is about to wait for: the log's next segment, a memtable's next pages. Not to
  /// wait after a flush.
  case immediate

  /// Less urgent first.
  public static func < (left: BackgroundPriority, right: BackgroundPriority) -> Bool {
    left.rawValue < right.rawValue
  }
}
