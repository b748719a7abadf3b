internal import Dispatch
internal import Foundation
internal import Synchronization

/// A task executor whose threads may wait for a disk.
///
/// Asynchronous calls run on it whatever could block, so that no thread of Swift's cooperative pool is occupied.
///
/// It runs the caller's own task, with its task-local values and its cancellation. Switching to the executor and back
/// costs some 40 µs.
///
/// The threads are its own and not Dispatch's: there are only as many of those as processors, and the tasks of the
/// program run on them. A job takes the thread that became idle last; if none is idle, it starts a new thread while
/// there are fewer than `readyLimit`, or else waits. Among waiting jobs, those of tasks with a high priority
/// (`TaskPriority.userInitiated` and above) come first, and each kind runs in order of arrival. A thread that has had
/// no job for `keptIdle` ends.
///
/// # Threads beyond `readyLimit`
/// Most jobs are short: a task that comes to wait for the writer takes microseconds, and a thread for each of thousands
/// that arrive at once would cost more than all of those tasks. Beyond `readyLimit`, and up to `limit`, threads are
/// therefore added only if the existing ones are stalled. While jobs wait, one thread is *watching*: it checks every
/// `stallDuration` whether a job was begun. If none was, every thread is blocked, and the watching thread starts
/// another one, then two, four and so on, until jobs are begun again. When no job waits any more, it becomes a thread
/// like any other. A thread counts from the call that starts it.
///
/// # What may run on the executor
/// On an executor with a limit, no job may wait for something that another job does, because that could be a deadlock.
/// The writer, turns and commits are therefore awaited by suspending, between jobs. Work that does wait on its thread,
/// such as the building of an extension, runs on an executor without a limit.
final class DatabaseExecutor: TaskExecutor {
  /// A thread that can be idle, and the means to give it its next job.
  private final class Worker: @unchecked Sendable {
    // Sendable: `job` is accessed under the lock of `state`, or by the thread that waits for the signal.
    let wake = DispatchSemaphore(value: 0)
    var job: UnownedJob?
  }

  private struct State {
    /// The idle threads, in the order in which they became idle.
    var idle: [Worker] = []
    var jobs = WaitingJobs()
    /// The number of threads, including those that are starting or watching.
    var threadCount = 0
    var mostThreads = 0
    var stallThreads = 0
    var isWatched = false
    /// The number of jobs from `jobs` that were begun.
    var begunCount: UInt64 = 0

    /// Takes the next waiting job. Returns `nil` if none waits; the worker is then registered as idle.
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

  /// The default for `limit`: more than the number of processors, because most threads wait for a disk.
  static var usualLimit: Int { max(16, 4 * ProcessInfo.processInfo.activeProcessorCount) }

  /// The `limit` for reads: more than a program has long reads at a time. It bounds the memory of the threads if
  /// thousands of reads are requested at once.
  static var readLimit: Int { max(256, usualLimit) }

  /// A `readyLimit` for threads that wait for the writer: more than the number of processors, because a few of them may
  /// wait for long.
  static var usualReadyLimit: Int { max(8, 2 * ProcessInfo.processInfo.activeProcessorCount) }

  private let limit: Int
  private let readyLimit: Int
  private let keptIdle: DispatchTimeInterval
  private let stallDuration: DispatchTimeInterval
  private let state = Mutex(State())

  /// Creates an executor with up to `limit` threads. While there are fewer than `readyLimit` of them, which defaults to
  /// `limit`, each job gets a thread at once.
  init(
    limit: Int = usualLimit, readyLimit: Int? = nil, keptIdle: DispatchTimeInterval = .seconds(5),
    stallDuration: DispatchTimeInterval = .milliseconds(5)
  ) {
    self.limit = limit
    self.readyLimit = min(readyLimit ?? limit, limit)
    self.keptIdle = keptIdle
    self.stallDuration = stallDuration
  }

  /// The number of threads that exist.
  var threadCount: Int { state.withLock { $0.threadCount } }

  /// The highest number of threads that have existed at a time.
  var mostThreads: Int { state.withLock { $0.mostThreads } }

  /// The number of threads that were started to watch waiting jobs, or because none of those jobs was begun.
  var stallThreads: Int { state.withLock { $0.stallThreads } }

  /// The number of jobs that wait for a thread.
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

  /// Starts a thread that begins with the job `first`, or by watching if that is `nil`.
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
    // Values may be nested deeply, and their coders are recursive.
    thread.stackSize = 8 << 20
    // A caller waits for what runs here, perhaps on the main thread.
    thread.qualityOfService = .userInitiated
    thread.start()
  }

  /// Starts threads as long as jobs wait and none is begun. Once no job waits, or `limit` is reached, returns what
  /// `nextJob` would return.
  private func watch(_ worker: Worker) -> UnownedJob? {
    let pause = DispatchSemaphore(value: 0)
    var growth = 1
    var begun = state.withLock { $0.begunCount }
    while true {
      _ = pause.wait(timeout: .now() + stallDuration)
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

  /// Waits for the next job. Returns `nil` if none has arrived within `keptIdle`; the thread then ends.
  private func nextJob(_ worker: Worker) -> UnownedJob? {
    state.withLock { $0.takeJob(worker) } ?? waitForJob(worker)
  }

  /// Waits like `nextJob(_:)`, for a worker that is registered as idle.
  private func waitForJob(_ worker: Worker) -> UnownedJob? {
    if worker.wake.wait(timeout: .now() + keptIdle) == .timedOut {
      let isUnused = state.withLock { state in
        guard let index = state.idle.firstIndex(where: { $0 === worker }) else { return false }
        state.idle.remove(at: index)
        state.threadCount -= 1
        return true
      }
      if isUnused { return nil }
      // The worker was given a job at the last moment.
      worker.wake.wait()
    }
    return state.withLock { _ in worker.job.take() }
  }
}

/// The jobs that have no thread yet: urgent ones come first, except that one of the others is taken after every eight
/// urgent ones, so that none starves.
private struct WaitingJobs {
  /// The number of urgent jobs that are taken before one of the others is.
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

/// A queue of jobs in order of arrival.
private struct JobLine {
  private var incoming: [UnownedJob] = []
  /// The jobs that arrived before those in `incoming`, the oldest last.
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

/// Whether code with the given isolation runs on an actor.
///
/// This is a separate function because Swift 6.3 emits broken code for `#isolation == nil` in a function that inherits
/// its isolation.
func isActor(_ isolation: (any Actor)?) -> Bool { isolation != nil }
