internal import Synchronization

/// The attempts of a start: those that run, their workers, those that have ended, and the claims of those that are
/// next.
///
/// - `busyCount` is the number of attempts that have a worker. An attempt has one from its beginning until its handler
///   has returned or was abandoned, so one that has ended may still have a worker.
/// - An attempt is in `runs` until its end is committed, and then in `abandonable` until its worker is released.
/// - Each attempt in `stopCallers` has a worker.
struct RunningTasks: ~Copyable {
  /// The handlers that run tasks.
  var handlers = HandlerRegistry()
  /// The kinds of tasks that were due to run and have no handler.
  var unhandled: Set<String> = []
  private(set) var runs: [TaskID: TaskRun] = [:]
  /// The number of workers that have an attempt.
  private(set) var busyCount = 0
  /// The attempts that have ended, and whose handlers have not returned.
  private(set) var abandonable: [AttemptKey: TaskRun] = [:]
  /// The attempts whose handlers wait for a stop.
  private(set) var stopCallers: Set<AttemptKey> = []
  /// The attempts whose end is not committed yet.
  var settlements: [Settlement] = []
  /// The attempt that a waiting worker gets.
  var handedOver: TaskRun?
  /// The claims that were made before a worker was free.
  var ahead = ClaimsAhead()

  /// Returns the attempt of a task, or `nil` if the task does not run.
  subscript(_ id: TaskID) -> TaskRun? { runs[id] }

  /// Returns an attempt of a task, or `nil` if it has ended.
  func run(_ id: TaskID, _ epoch: UInt32) -> TaskRun? {
    guard let run = runs[id], run.epoch == epoch else { return nil }
    return run
  }

  /// Adds an attempt that begins, which takes a worker.
  mutating func begin(_ run: TaskRun) {
    runs[run.id] = run
    busyCount += 1
  }

  /// Removes an attempt whose claim could not be committed.
  mutating func undoBegin(_ run: TaskRun) {
    runs[run.id] = nil
    busyCount -= 1
  }

  /// Removes an attempt whose end is committed. If it has a worker, it is abandoned when its handler does not return.
  mutating func end(_ run: TaskRun, hasWorker: Bool) {
    runs[run.id] = nil
    if hasWorker { abandonable[run.key] = run }
  }

  /// Releases the worker of an attempt.
  mutating func release(_ run: TaskRun) {
    abandonable[run.key] = nil
    stopCallers.remove(run.key)
    busyCount -= 1
  }

  /// Takes an attempt that has ended, and whose handler has not returned in time. Returns `nil` if it has by now.
  mutating func takeAbandonable(_ key: AttemptKey) -> TaskRun? { abandonable.removeValue(forKey: key) }

  /// Takes back an attempt that was abandoned in a commit that could not be made.
  mutating func putBack(abandoned run: TaskRun) { abandonable[run.key] = run }

  /// Takes the first attempts whose end is not committed yet.
  mutating func takeSettlements(_ count: Int) -> [Settlement] {
    defer { settlements.removeFirst(count) }
    return Array(settlements.prefix(count))
  }

  // MARK: - Handlers that stop the scheduler

  /// Notes that the handler of an attempt waits for a stop.
  mutating func noteStopCaller(_ run: TaskRun) { stopCallers.insert(run.key) }

  /// Whether an attempt runs whose handler does not wait for a stop.
  var hasOthers: Bool { runs.count > stopCallers.count || runs.values.contains { !stopCallers.contains($0.key) } }

  /// Whether all handlers that run wait for a stop. They may be none.
  var areAllStopCallers: Bool { busyCount == stopCallers.count }
}
