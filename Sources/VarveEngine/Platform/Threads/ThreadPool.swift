internal import CVarve

/// The engine's own threads: `varve-now` for the next few milliseconds of writers, `varve-bg-0` for what
/// others wait for, `varve-bg-1` and up for the rest.
///
/// A compaction runs for seconds, and a writer may wait for the flush that comes after it. So `varve-bg-0`
/// takes no job of low priority, ever. A flush runs for a tenth of a second and more, most of it waiting for
/// the disk, and the log's next segment can't: so `varve-now` takes jobs of priority `immediate` alone.
/// Measured over five minutes of overwrites with two threads for compactions: the longest put took 306 ms
/// without it, and each of twelve puts that were looked at while they waited, waited for a segment; eleven of
/// those no one had begun to prepare. With it: 192 ms, and one wait above 45 ms.
///
/// The other `threads` take any job, but an urgent one only while the two are busy: with `lowersPriority`
/// they yield the processor to the program, and a thread that was lowered can't be raised again.
///
/// Where the system starts fewer threads, those that are there do all the work, `varve-bg-1` first; each submission
/// tries to start the others. A thread that waits runs jobs itself meanwhile: all of them where no thread was started.
///
/// # Invariants
/// 1. While a delayed job waits and a thread but `varve-now` is idle, exactly one idle thread, the
///    timekeeper, sleeps no longer than until it is due.
/// 2. A job runs, is dropped and is freed outside the lock.
/// 3. `generation` grows with each end of a job and each `wakeWaiters`; a waiter sleeps only while it
///    is what it was before its condition was looked at.
///
/// # Concurrency
/// Any thread. All of `state` is guarded by `monitor`; nothing else is locked while it is held.
public final class ThreadPool: BackgroundExecutor, @unchecked Sendable {
  // Sendable: `state` is touched only inside `monitor.withLock`.

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
    /// The threads that are to be started, in order.
    var missing: [(name: String, role: Role)] = []
  }

  /// What a thread is for; as a number, the condition on which it sleeps.
  private enum Role: Int {
    case immediate, urgent, worker
  }

  private enum Condition {
    static let waiter = 3
    static let count = 4
  }

  /// How many jobs of low priority may run side by side; the threads for urgent jobs are not counted.
  public let parallelism: Int
  private let niceSteps: Int32
  private let clock = SystemClock()
  private let monitor = Monitor(conditionCount: Condition.count)
  private var state = State()

  /// Starts `threads` threads for all work and two for urgent work. `lowersPriority` lets the former
  /// yield to the program's own threads (nice 5).
  public init(threads: Int, lowersPriority: Bool = true) {
    guard threads >= 1 else { fatalError("a thread pool needs a thread: pass 1 or more") }
    parallelism = threads
    niceSteps = lowersPriority ? 5 : 0
    // The one that takes every job comes first.
    state.missing = [("varve-bg-1", .worker), ("varve-bg-0", .urgent), ("varve-now", .immediate)]
    for number in 1..<threads { state.missing.append(("varve-bg-\(number + 1)", .worker)) }
    // Held meanwhile, so that `shutDown` finds all of them.
    monitor.withLock { startMissingThreads() }
  }

  /// Starts the threads that are missing, as far as the system does. Under the lock.
  private func startMissingThreads() {
    while let (name, role) = state.missing.first {
      guard let thread = EngineThread(ifPossible: name, body: { self.run(role) }) else { return }
      state.threads.append(thread)
      state.missing.removeFirst()
    }
  }

  /// Whether jobs run without a caller of `wait`.
  public var hasThreads: Bool { monitor.withLock { !state.threads.isEmpty } }

  /// Runs `body` some time.
  public func submit(_ name: String, priority: BackgroundPriority, _ body: @escaping @Sendable () -> Void) {
    let job = ThreadPoolQueue.Job(name: name, priority: priority, body: body)
    monitor.withLock {
      guard !state.isShutDown else { return }
      state.queue.append(job)
      if !state.missing.isEmpty { startMissingThreads() }
      // Without threads one that waits runs it.
      if state.threads.isEmpty { advanceGeneration() }
      wakeThread(for: priority)
    }
  }

  /// Runs `body` when at least `nanoseconds` have passed, with normal priority.
  public func submit(_ name: String, after nanoseconds: UInt64, _ body: @escaping @Sendable () -> Void) {
    let (sum, overflow) = clock.now().addingReportingOverflow(nanoseconds)
    let job = ThreadPoolQueue.Job(name: name, priority: .normal, body: body)
    monitor.withLock {
      guard !state.isShutDown else { return }
      if !state.missing.isEmpty { startMissingThreads() }
      if state.threads.isEmpty { advanceGeneration() }
      guard state.queue.append(job, deadline: overflow ? .max : sum) else { return }
      // The timekeeper sleeps for too long now, or there is none yet.
      monitor.broadcast(Role.urgent.rawValue)
      monitor.broadcast(Role.worker.rawValue)
    }
  }

  /// Waits until `condition` is true, which is looked at again after each job and each `wakeWaiters`.
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

  /// A job that a waiting thread runs instead of one that could not be started.
  private func takeJobOfMissingThread() -> ThreadPoolQueue.Job? {
    monitor.withLock {
      guard !state.missing.isEmpty, !state.isShutDown else { return nil }
      if state.queue.nextDeadline != nil { state.queue.collectDue(clock.now()) }
      // A job of low priority may take long: only where no other thread would do it.
      return state.queue.takeFirst(state.threads.isEmpty ? .low ... .immediate : .normal ... .immediate)
    }
  }

  /// Lets every `wait` look at its condition again.
  public func wakeWaiters() {
    monitor.withLock { advanceGeneration() }
  }

  /// Waits for the jobs that run, drops those that don't yet, and ends the threads. Not to be called
  /// by a job.
  public func shutDown() {
    let (threads, dropped) = monitor.withLock { () -> ([EngineThread], ThreadPoolQueue) in
      state.isShutDown = true
      for role in [Role.immediate, .urgent, .worker] { monitor.broadcast(role.rawValue) }
      defer { state.threads = [] }
      state.missing = []
      return (state.threads, state.queue.removeAll())
    }
    for thread in threads { thread.join() }
    // What the dropped jobs hold is freed here, where nothing is locked.
    withExtendedLifetime(dropped) {}
  }
}

extension ThreadPool {
  /// The body of a thread.
  private func run(_ role: Role) {
    if role == .worker && niceSteps > 0 { cvarve_lower_thread_priority(niceSteps) }
    while let job = nextJob(role) {
      job.body()
      monitor.withLock { advanceGeneration() }
    }
  }

  /// Sleeps until there is a job for this thread; nil at the end.
  private func nextJob(_ role: Role) -> ThreadPoolQueue.Job? {
    monitor.withLock {
      while !state.isShutDown {
        let now = state.queue.nextDeadline == nil ? 0 : clock.now()
        state.queue.collectDue(now)
        if let job = takeJob(role) {
          // What became due together, and the timekeeper's duty, go to another thread.
          let needsTimekeeper = state.queue.nextDeadline != nil && !state.hasTimekeeper
          if state.queue.has(.normal ... .immediate) || needsTimekeeper { wakeThread(for: .normal) }
          return job
        }
        sleep(role, now: now)
      }
      return nil
    }
  }

  /// The next job for a thread. One that is not lowered is left what it may take, if it is idle.
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

  /// Wakes a thread that may take what was just queued.
  private func wakeThread(for priority: BackgroundPriority) {
    if priority == .immediate && state.isImmediateThreadIdle {
      // Taken back here already, so that a second such job wakes another thread.
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
