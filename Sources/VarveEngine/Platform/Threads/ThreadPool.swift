internal import CVarve

/// The engine's own threads: `varve-now` for jobs that writers need within the next few milliseconds, `varve-bg-0`
/// for jobs for which others wait, and `varve-bg-1` and up for the rest.
///
/// A compaction runs for seconds, and a writer may wait for the flush that comes after it. So `varve-bg-0` never
/// takes a job of low priority. A flush runs for a tenth of a second or more, most of it waiting for the disk, and
/// the log's next segment can't wait that long. So `varve-now` takes only jobs of priority `immediate`. Measured over
/// five minutes of overwrites with two threads for compactions: without `varve-now` the longest put took 306 ms, and
/// each of twelve puts that were examined while they waited was waiting for a segment; eleven of those segments no
/// thread had begun to prepare. With it, the longest put took 192 ms, and one wait was above 45 ms.
///
/// The other `threads` take any job, but an urgent one only while the two are busy: with `lowersPriority` they yield
/// the processor to the program, and a thread whose priority was lowered can't raise it again.
///
/// If the system starts fewer threads, those that were started do all the work, `varve-bg-1` first, and each
/// submission tries to start the others. A thread that waits then runs jobs itself: all of them if no thread was
/// started.
///
/// # Invariants
/// 1. While a delayed job waits and a thread other than `varve-now` is idle, exactly one idle thread, the timekeeper,
///    sleeps no longer than until the job is due.
/// 2. A job runs, is dropped and is freed outside the lock.
/// 3. `generation` increases with each end of a job and each `wakeWaiters`. A waiter sleeps only while it has the
///    value from before its condition was checked.
///
/// # Concurrency
/// Safe from any thread. `monitor` guards all of `state`; no other lock is taken while it is held.
public final class ThreadPool: BackgroundExecutor, @unchecked Sendable {
  // Sendable: `state` is accessed only inside `monitor.withLock`.

  private struct State {
    var queue = ThreadPoolQueue()
    var isImmediateThreadIdle = false
    var isUrgentThreadIdle = false
    var idleWorkerCount = 0
    var hasTimekeeper = false
    var isShutDown = false
    var generation: UInt64 = 0
    var waiterCount = 0
    var threads: [EngineThread] = []
    /// The threads that have not been started yet, in order.
    var missing: [(name: String, role: Role)] = []
  }

  /// The role of a thread. Its raw value is the condition on which the thread sleeps.
  private enum Role: Int {
    case immediate, urgent, worker
  }

  private enum Condition {
    static let waiter = 3
    static let count = 4
  }

  /// The number of jobs of low priority that may run in parallel, which does not include the threads for urgent jobs.
  public let parallelism: Int
  private let niceSteps: Int32
  private let clock = SystemClock()
  private let monitor = Monitor(conditionCount: Condition.count)
  private var state = State()

  /// Starts `threads` threads for all work and two for urgent work. `lowersPriority` makes the former yield to the
  /// program's own threads (nice 5).
  public init(threads: Int, lowersPriority: Bool = true) {
    guard threads >= 1 else { fatalError("a thread pool needs a thread: pass 1 or more") }
    parallelism = threads
    niceSteps = lowersPriority ? 5 : 0
    // The thread that takes every job is started first.
    state.missing = [("varve-bg-1", .worker), ("varve-bg-0", .urgent), ("varve-now", .immediate)]
    for number in 1..<threads { state.missing.append(("varve-bg-\(number + 1)", .worker)) }
    // The lock is held while threads are started, so that `shutDown` finds all of them.
    monitor.withLock { startMissingThreads() }
  }

  /// Starts the missing threads, as far as the system can. Called under the lock.
  private func startMissingThreads() {
    while let (name, role) = state.missing.first {
      guard let thread = EngineThread(ifPossible: name, body: { self.run(role) }) else { return }
      state.threads.append(thread)
      state.missing.removeFirst()
    }
  }

  /// Whether jobs run without a caller in `wait`.
  public var hasThreads: Bool { monitor.withLock { !state.threads.isEmpty } }

  /// Runs `body` eventually.
  public func submit(_ name: String, priority: BackgroundPriority, _ body: @escaping @Sendable () -> Void) {
    let job = ThreadPoolQueue.Job(name: name, priority: priority, body: body)
    monitor.withLock {
      guard !state.isShutDown else { return }
      state.queue.append(job)
      if !state.missing.isEmpty { startMissingThreads() }
      // If there are no threads, a waiting thread runs the job.
      if state.threads.isEmpty { advanceGeneration() }
      wakeThread(for: priority)
    }
  }

  /// Runs `body` with normal priority once at least `nanoseconds` have passed.
  public func submit(_ name: String, after nanoseconds: UInt64, _ body: @escaping @Sendable () -> Void) {
    let (sum, overflow) = clock.now().addingReportingOverflow(nanoseconds)
    let job = ThreadPoolQueue.Job(name: name, priority: .normal, body: body)
    monitor.withLock {
      guard !state.isShutDown else { return }
      if !state.missing.isEmpty { startMissingThreads() }
      if state.threads.isEmpty { advanceGeneration() }
      guard state.queue.append(job, deadline: overflow ? .max : sum) else { return }
      // The timekeeper now sleeps for too long, or there is none yet.
      monitor.broadcast(Role.urgent.rawValue)
      monitor.broadcast(Role.worker.rawValue)
    }
  }

  /// Waits until `condition` returns true. It is checked again after each job and each `wakeWaiters`.
  public func wait(until condition: @Sendable () -> Bool) {
    var generation = monitor.withLock { state.generation }
    while !condition() {
      if let job = takeJobOfMissingThread() {
        job.body()
        monitor.withLock { advanceGeneration() }
        continue
      }
      generation = monitor.withLock {
        state.waiterCount += 1
        while state.generation == generation {
          guard state.threads.isEmpty, let deadline = state.queue.nextDeadline else {
            monitor.wait(Condition.waiter)
            continue
          }
          let now = clock.now()
          if deadline > now { monitor.wait(Condition.waiter, nanoseconds: deadline - now) }
          break
        }
        state.waiterCount -= 1
        return state.generation
      }
    }
  }

  /// Returns a job that a waiting thread runs in place of a thread that could not be started.
  private func takeJobOfMissingThread() -> ThreadPoolQueue.Job? {
    monitor.withLock {
      guard !state.missing.isEmpty, !state.isShutDown else { return nil }
      if state.queue.nextDeadline != nil { state.queue.collectDue(clock.now()) }
      // A job of low priority may take long, so it is taken only if no other thread would run it.
      return state.queue.takeFirst(state.threads.isEmpty ? .low ... .immediate : .normal ... .immediate)
    }
  }

  /// Makes every `wait` check its condition again.
  public func wakeWaiters() {
    monitor.withLock { advanceGeneration() }
  }

  /// Waits for running jobs, drops those that have not begun, and ends the threads. A job must not call it.
  public func shutDown() {
    let (threads, dropped) = monitor.withLock { () -> ([EngineThread], ThreadPoolQueue) in
      state.isShutDown = true
      for role in [Role.immediate, .urgent, .worker] { monitor.broadcast(role.rawValue) }
      defer { state.threads = [] }
      state.missing = []
      return (state.threads, state.queue.removeAll())
    }
    for thread in threads { thread.join() }
    // What the dropped jobs retain is freed here, where no lock is held.
    withExtendedLifetime(dropped) {}
  }
}

extension ThreadPool {
  /// Runs the jobs of a thread until the pool is shut down.
  private func run(_ role: Role) {
    if role == .worker && niceSteps > 0 { cvarve_lower_thread_priority(niceSteps) }
    while let job = nextJob(role) {
      job.body()
      monitor.withLock { advanceGeneration() }
    }
  }

  /// Sleeps until there is a job for this thread. Returns nil once the pool is shut down.
  private func nextJob(_ role: Role) -> ThreadPoolQueue.Job? {
    monitor.withLock {
      while !state.isShutDown {
        let now = state.queue.nextDeadline == nil ? 0 : clock.now()
        state.queue.collectDue(now)
        if let job = takeJob(role) {
          // Other jobs that became due at the same time, and the role of the timekeeper, pass to another thread.
          let needsTimekeeper = state.queue.nextDeadline != nil && !state.hasTimekeeper
          if state.queue.has(.normal ... .immediate) || needsTimekeeper { wakeThread(for: .normal) }
          return job
        }
        sleep(role, now: now)
      }
      return nil
    }
  }

  /// Returns the next job for a thread. A job that an idle `varve-now` or `varve-bg-0` may take is left to that thread.
  private func takeJob(_ role: Role) -> ThreadPoolQueue.Job? {
    if role == .immediate { return state.queue.takeFirst(.immediate ... .immediate) }
    var priorities: ClosedRange<BackgroundPriority> = role == .urgent ? .normal ... .immediate : .low ... .immediate
    if state.isImmediateThreadIdle && state.queue.has(.immediate ... .immediate) {
      wakeThread(for: .immediate)
      priorities = priorities.lowerBound ... .high
    }
    if role == .worker && state.isUrgentThreadIdle && state.queue.has(.normal ... .high) {
      wakeThread(for: .high)
      priorities = .low ... .low
    }
    return state.queue.takeFirst(priorities)
  }

  private func sleep(_ role: Role, now: UInt64) {
    setIdle(role, true)
    if role != .immediate, let deadline = state.queue.nextDeadline, !state.hasTimekeeper {
      state.hasTimekeeper = true
      monitor.wait(role.rawValue, nanoseconds: deadline - now)
      state.hasTimekeeper = false
    } else {
      monitor.wait(role.rawValue)
    }
    setIdle(role, false)
  }

  private func setIdle(_ role: Role, _ isIdle: Bool) {
    switch role {
    case .immediate: state.isImmediateThreadIdle = isIdle
    case .urgent: state.isUrgentThreadIdle = isIdle
    case .worker: state.idleWorkerCount += isIdle ? 1 : -1
    }
  }

  /// Wakes a thread that may take the job that was just queued.
  private func wakeThread(for priority: BackgroundPriority) {
    if priority == .immediate && state.isImmediateThreadIdle {
      // The flag is cleared here already, so that a second such job wakes another thread.
      state.isImmediateThreadIdle = false
      monitor.signal(Role.immediate.rawValue)
    } else if priority > .low && state.isUrgentThreadIdle {
      state.isUrgentThreadIdle = false
      monitor.signal(Role.urgent.rawValue)
    } else if state.idleWorkerCount > 0 {
      monitor.signal(Role.worker.rawValue)
    }
  }

  private func advanceGeneration() {
    state.generation += 1
    if state.waiterCount > 0 { monitor.broadcast(Condition.waiter) }
  }
}
