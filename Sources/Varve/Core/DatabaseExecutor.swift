internal import Dispatch
internal import Foundation
internal import Synchronization

/// Threads that may wait for a disk: where asynchronous doors run what could block, so that no thread of Swift's
/// concurrency is kept from others.
///
/// As a task executor it takes the caller's task along, with its task-locals and its cancellation; a hop there and back
/// costs some 40 µs.
///
/// The threads are its own, and none of Dispatch's: those are as many as processors, and the tasks of the program run on
/// them. A job takes the thread that was idle last, or a new one up to `limit`, or waits: first those of tasks whose
/// priority is high (`TaskPriority.userInitiated` and above), each kind in order of arrival. A thread that has had nothing
/// to do for `keptIdle` ends.
///
/// # What may run on it
/// With a limit: nothing that waits for something another job does, or the limit is a deadlock. So the writer, turns and
/// commits are awaited by suspending, between jobs. What does wait on its thread, the building of an extension, runs
/// on an executor without a limit.
final class DatabaseExecutor: TaskExecutor {
  /// A thread that is idle, and how it gets its next job.
  private final class Worker: @unchecked Sendable {
    // Sendable: `job` is touched under the lock of `state`, and by the thread behind the signal.
    let wake = DispatchSemaphore(value: 0)
    var job: UnownedJob?
  }

  private struct State {
    /// The last to become idle is the last here.
    var idle: [Worker] = []
    var jobs = WaitingJobs()
    var threadCount = 0
  }

  /// More than processors: most of them wait for a disk.
  static var usualLimit: Int { max(16, 4 * ProcessInfo.processInfo.activeProcessorCount) }

  private let limit: Int
  private let keptIdle: DispatchTimeInterval
  private let state = Mutex(State())

  init(limit: Int = usualLimit, keptIdle: DispatchTimeInterval = .seconds(5)) {
    self.limit = limit
    self.keptIdle = keptIdle
  }

  /// How many threads there are.
  var threadCount: Int { state.withLock { $0.threadCount } }

  /// How many jobs wait for a thread.
  var waitingCount: Int { state.withLock { $0.jobs.count } }

  // MARK: - Jobs

  func enqueue(_ job: consuming ExecutorJob) {
    let isUrgent = job.priority.rawValue >= TaskPriority.userInitiated.rawValue
    let job = UnownedJob(job)
    let (idle, startsThread): (Worker?, Bool) = state.withLock { state in
      if let worker = state.idle.popLast() {
        worker.job = job
        return (worker, false)
      }
      guard state.threadCount < limit else {
        state.jobs.append(job, isUrgent: isUrgent)
        return (nil, false)
      }
      state.threadCount += 1
      return (nil, true)
    }
    if let idle { idle.wake.signal() }
    if startsThread { startThread(job) }
  }

  /// Runs `body` on one of the threads.
  func run<Result: Sendable>(_ body: @Sendable () throws -> Result) async throws -> Result {
    try await withTaskExecutorPreference(self) { try await Self.runThere(body) }
  }

  /// Runs an asynchronous `body` so that each of its steps runs on one of the threads.
  func runTask<Result: Sendable>(_ body: @Sendable @concurrent () async throws -> Result) async throws -> Result {
    try await withTaskExecutorPreference(self) { try await body() }
  }

  @concurrent
  private static func runThere<Result: Sendable>(_ body: @Sendable () throws -> Result) async throws -> Result {
    try body()
  }

  // MARK: - Threads

  private func startThread(_ first: UnownedJob) {
    let thread = Thread { [self] in
      let worker = Worker()
      var job: UnownedJob? = first
      while let current = job {
        execute(current)
        job = nextJob(worker)
      }
    }
    thread.name = "varve-wait"
    // Values may be nested deeply, and their coders call themselves.
    thread.stackSize = 8 << 20
    // Somebody waits for what runs here, on a thread that may be the main one.
    thread.qualityOfService = .userInitiated
    thread.start()
  }

  private func execute(_ job: UnownedJob) {
    #if canImport(Darwin)
      autoreleasepool { unsafe job.runSynchronously(on: asUnownedTaskExecutor()) }
    #else
      unsafe job.runSynchronously(on: asUnownedTaskExecutor())
    #endif
  }

  /// Waits for a job; nil where none has come for a while: the thread ends.
  private func nextJob(_ worker: Worker) -> UnownedJob? {
    let waiting = state.withLock { state in
      let job = state.jobs.popFirst()
      if job == nil { state.idle.append(worker) }
      return job
    }
    if let waiting { return waiting }
    if worker.wake.wait(timeout: .now() + keptIdle) == .timedOut {
      let isUnused = state.withLock { state in
        guard let index = state.idle.firstIndex(where: { $0 === worker }) else { return false }
        state.idle.remove(at: index)
        state.threadCount -= 1
        return true
      }
      if isUnused { return nil }
      // It was given one at the last moment.
      worker.wake.wait()
    }
    return state.withLock { _ in worker.job.take() }
  }
}

/// Jobs that no thread has yet: the urgent ones before the others, but for one in so many, so that those come to their
/// turn.
private struct WaitingJobs {
  /// So many urgent jobs are taken while others wait, and then one of the others.
  private static let urgentInTurn = 8

  private var urgent = JobLine()
  private var others = JobLine()
  private var urgentTaken = 0

  var count: Int { urgent.count + others.count }

  mutating func append(_ job: UnownedJob, isUrgent: Bool) {
    if isUrgent { urgent.append(job) } else { others.append(job) }
  }

  mutating func popFirst() -> UnownedJob? {
    if urgentTaken < Self.urgentInTurn || others.count == 0, let job = urgent.popFirst() {
      urgentTaken += 1
      return job
    }
    urgentTaken = 0
    return others.popFirst()
  }
}

/// Jobs in order of arrival.
private struct JobLine {
  private var incoming: [UnownedJob] = []
  /// Those before `incoming`, the oldest last.
  private var outgoing: [UnownedJob] = []

  var count: Int { incoming.count + outgoing.count }

  mutating func append(_ job: UnownedJob) { incoming.append(job) }

  mutating func popFirst() -> UnownedJob? {
    if outgoing.isEmpty {
      outgoing = incoming.reversed()
      incoming.removeAll(keepingCapacity: true)
    }
    return outgoing.popLast()
  }
}

/// Whether code that was called with this isolation runs on an actor.
///
/// A function of its own, because Swift 6.3 emits broken code for `#isolation == nil` in a function that inherits its
/// isolation.
func isActor(_ isolation: (any Actor)?) -> Bool { isolation != nil }
