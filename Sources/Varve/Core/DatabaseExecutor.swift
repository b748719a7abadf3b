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
/// them. A job takes the thread that was idle last, or a new one while there are fewer than `readyLimit`, or waits: first
/// those of tasks whose priority is high (`TaskPriority.userInitiated` and above), each kind in order of arrival. A thread
/// that has had nothing to do for `keptIdle` ends.
///
/// # More threads than are ready
/// Most jobs are short: a task that comes to wait for the writer takes microseconds, and a thread for each of thousands
/// that come at once would cost more than all of them. So beyond `readyLimit`, and up to `limit`, threads are added only
/// where those that there are do not go on. As long as jobs wait one thread is *watching*: it looks every
/// `stallDuration`, and if no job was begun in between, each thread waits for something, and the watching one starts
/// another, then two, four, until jobs are begun again. With no job left it becomes a thread like any other. A thread that
/// is still starting counts from the call that starts it.
///
/// # What may run on it
/// With a limit: nothing that waits for something another job does, or the limit is a deadlock. So the writer, turns and
/// commits are awaited by suspending, between jobs. What does wait on its thread, the building of an extension, runs
/// on an executor without a limit.
final class DatabaseExecutor: TaskExecutor {
  /// A thread that is idle, and how it gets its next job.
  private final class Worker: @unchecked Sendable {
    // Sendable: `job` is touched under the lock of `state`, and by the thread that waits for the signal.
    let wake = DispatchSemaphore(value: 0)
    var job: UnownedJob?
  }

  private struct State {
    /// The last to become idle is the last here.
    var idle: [Worker] = []
    var jobs = WaitingJobs()
    /// Those that are starting or watching too.
    var threadCount = 0
    var mostThreads = 0
    var stallThreads = 0
    var isWatched = false
    /// How many waiting jobs were begun.
    var begunCount: UInt64 = 0

    /// The next job that waits; nil: the thread is idle from now on.
    mutating func takeJob(_ worker: Worker) -> UnownedJob? {
      let job = jobs.popFirst()
      if job == nil { idle.append(worker) } else { begunCount &+= 1 }
      return job
    }

    mutating func addThread() {
      threadCount += 1
      mostThreads = max(mostThreads, threadCount)
    }
  }

  /// More than processors: most of them wait for a disk.
  static var usualLimit: Int { max(16, 4 * ProcessInfo.processInfo.activeProcessorCount) }

  /// More than processors: of those that wait for the writer on their threads, a few may do so for long.
  static var usualReadyLimit: Int { max(8, 2 * ProcessInfo.processInfo.activeProcessorCount) }
  private static let stallDuration = DispatchTimeInterval.milliseconds(5)

  private let limit: Int
  private let readyLimit: Int
  private let keptIdle: DispatchTimeInterval
  private let state = Mutex(State())

  /// Up to `limit` threads; each job gets one of its own at once while there are fewer than `readyLimit`, which is
  /// `limit` where it isn't said.
  init(limit: Int = usualLimit, readyLimit: Int? = nil, keptIdle: DispatchTimeInterval = .seconds(5)) {
    self.limit = limit
    self.readyLimit = min(readyLimit ?? limit, limit)
    self.keptIdle = keptIdle
  }

  /// How many threads there are.
  var threadCount: Int { state.withLock { $0.threadCount } }

  /// How many threads there ever were at a time.
  var mostThreads: Int { state.withLock { $0.mostThreads } }

  /// How many threads were started to watch jobs that wait, or because none of those was begun.
  var stallThreads: Int { state.withLock { $0.stallThreads } }

  /// How many jobs wait for a thread.
  var waitingCount: Int { state.withLock { $0.jobs.count } }

  // MARK: - Jobs

  func enqueue(_ job: consuming ExecutorJob) {
    let isUrgent = job.priority.rawValue >= TaskPriority.userInitiated.rawValue
    let job = UnownedJob(job)
    enum Step {
      case wake(Worker)
      case start(UnownedJob?)
      case none
    }
    let step: Step = state.withLock { state in
      if let worker = state.idle.popLast() {
        worker.job = job
        return .wake(worker)
      }
      if state.threadCount < readyLimit {
        state.addThread()
        return .start(job)
      }
      state.jobs.append(job, isUrgent: isUrgent)
      if state.isWatched || state.threadCount >= limit { return .none }
      state.isWatched = true
      state.addThread()
      state.stallThreads += 1
      return .start(nil)
    }
    switch step {
    case .wake(let worker): worker.wake.signal()
    case .start(let first): startThread(first)
    case .none: break
    }
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

  /// Starts a thread that begins with a job; nil: that watches.
  private func startThread(_ first: UnownedJob?) {
    let thread = Thread { [self] in
      let worker = Worker()
      var job = first ?? watch(worker)
      while let current = job {
        execute(current)
        job = nextJob(worker)
      }
    }
    thread.name = "varve-wait"
    // Values may be nested deeply, and their coders call themselves.
    thread.stackSize = 8 << 20
    // Someone waits for what runs here, on a thread that may be the main one.
    thread.qualityOfService = .userInitiated
    thread.start()
  }

  /// Starts threads as long as jobs wait and none is begun. When none waits any more, or there are as many threads as
  /// there may be, it is `nextJob`.
  private func watch(_ worker: Worker) -> UnownedJob? {
    let pause = DispatchSemaphore(value: 0)
    var growth = 1
    var begun = state.withLock { $0.begunCount }
    while true {
      _ = pause.wait(timeout: .now() + Self.stallDuration)
      let (stalled, isOver): ([UnownedJob], Bool) = state.withLock { state in
        guard state.jobs.count > 0, state.threadCount < limit else {
          state.isWatched = false
          return (state.takeJob(worker).map { [$0] } ?? [], true)
        }
        guard state.begunCount == begun else {
          begun = state.begunCount
          growth = 1
          return ([], false)
        }
        var stalled: [UnownedJob] = []
        while stalled.count < growth, state.threadCount < limit, let job = state.jobs.popFirst() {
          state.addThread()
          state.stallThreads += 1
          stalled.append(job)
        }
        growth *= 2
        return (stalled, false)
      }
      if isOver { return stalled.first ?? waitForJob(worker) }
      for job in stalled { startThread(job) }
    }
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
    state.withLock { $0.takeJob(worker) } ?? waitForJob(worker)
  }

  /// The same for a thread that is idle.
  private func waitForJob(_ worker: Worker) -> UnownedJob? {
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
