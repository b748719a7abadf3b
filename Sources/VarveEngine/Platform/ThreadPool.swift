internal import CVarve

/// The engine's own threads: `varve-bg-0` for what others wait for, `varve-bg-1` and up for the rest.
///
/// A compaction runs for seconds, and a writer may wait for the flush that comes after it. So the
/// first thread takes no job of low priority, ever. The other `threads` take any job, but an urgent
/// one only while the first thread is busy: with `lowersPriority` they yield the processor to the
/// program, and a thread that was lowered can't be raised again.
///
/// # Invariants
/// 1. While a delayed job waits and a thread is idle, exactly one idle thread, the timekeeper, sleeps
///    no longer than until it is due.
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
    var isUrgentThreadIdle = false
    var idleWorkerCount = 0
    var hasTimekeeper = false
    var isShutDown = false
    var generation: UInt64 = 0
    var waiterCount = 0
    var threads: [EngineThread] = []
  }

  private enum Condition {
    static let urgent = 0
    static let worker = 1
    static let waiter = 2
    static let count = 3
  }

  /// How many jobs of low priority may run side by side; the thread for urgent jobs is not counted.
  public let parallelism: Int
  private let niceSteps: Int32
  private let clock = SystemClock()
  private let monitor = Monitor(conditionCount: Condition.count)
  private var state = State()

  /// Starts `threads` threads for all work and one for urgent work. `lowersPriority` lets the former
  /// yield to the program's own threads (nice 5).
  public init(threads: Int, lowersPriority: Bool = true) {
    guard threads >= 1 else { fatalError("a thread pool needs a thread: pass 1 or more") }
    parallelism = threads
    niceSteps = lowersPriority ? 5 : 0
    // Held meanwhile, so that `shutDown` finds all of them.
    monitor.withLock {
      for number in 0...threads {
        state.threads.append(EngineThread(name: "varve-bg-\(number)") { self.run(isUrgent: number == 0) })
      }
    }
  }

  /// Runs `body` some time.
  public func submit(_ name: String, priority: BackgroundPriority, _ body: @escaping @Sendable () -> Void) {
    let job = ThreadPoolQueue.Job(name: name, priority: priority, body: body)
    monitor.withLock {
      guard !state.isShutDown else { return }
      state.queue.append(job)
      wakeThread(urgent: priority > .low)
    }
  }

  /// Runs `body` when at least `nanoseconds` have passed, with normal priority.
  public func submit(_ name: String, after nanoseconds: UInt64, _ body: @escaping @Sendable () -> Void) {
    let (sum, overflow) = clock.now().addingReportingOverflow(nanoseconds)
    let job = ThreadPoolQueue.Job(name: name, priority: .normal, body: body)
    monitor.withLock {
      guard !state.isShutDown else { return }
      guard state.queue.append(job, deadline: overflow ? .max : sum) else { return }
      // The timekeeper sleeps for too long now, or there is none yet.
      monitor.broadcast(Condition.urgent)
      monitor.broadcast(Condition.worker)
    }
  }

  /// Waits until `condition` is true, which is looked at again after each job and each `wakeWaiters`.
  public func wait(until condition: @Sendable () -> Bool) {
    var generation = monitor.withLock { state.generation }
    while !condition() {
      generation = monitor.withLock {
        state.waiterCount += 1
        while state.generation == generation { monitor.wait(Condition.waiter) }
        state.waiterCount -= 1
        return state.generation
      }
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
      monitor.broadcast(Condition.urgent)
      monitor.broadcast(Condition.worker)
      defer { state.threads = [] }
      return (state.threads, state.queue.removeAll())
    }
    for thread in threads { thread.join() }
    // What the dropped jobs hold is freed here, where nothing is locked.
    withExtendedLifetime(dropped) {}
  }
}

extension ThreadPool {
  /// The body of a thread.
  private func run(isUrgent: Bool) {
    if !isUrgent && niceSteps > 0 { cvarve_lower_thread_priority(niceSteps) }
    while let job = nextJob(isUrgent: isUrgent) {
      job.body()
      monitor.withLock { advanceGeneration() }
    }
  }

  /// Sleeps until there is a job for this thread; nil at the end.
  private func nextJob(isUrgent: Bool) -> ThreadPoolQueue.Job? {
    monitor.withLock {
      while !state.isShutDown {
        let now = state.queue.nextDeadline == nil ? 0 : clock.now()
        state.queue.collectDue(now)
        if let job = takeJob(isUrgent: isUrgent) {
          // What became due together, and the timekeeper's duty, go to another thread.
          let needsTimekeeper = state.queue.nextDeadline != nil && !state.hasTimekeeper
          if state.queue.hasUrgent || needsTimekeeper { wakeThread(urgent: true) }
          return job
        }
        sleep(isUrgent: isUrgent, now: now)
      }
      return nil
    }
  }

  private func takeJob(isUrgent: Bool) -> ThreadPoolQueue.Job? {
    if isUrgent { return state.queue.takeFirst(.normal ... .high) }
    if state.queue.hasUrgent && state.isUrgentThreadIdle {
      wakeThread(urgent: true)
      return state.queue.takeFirst(.low ... .low)
    }
    return state.queue.takeFirst(.low ... .high)
  }

  private func sleep(isUrgent: Bool, now: UInt64) {
    let condition = isUrgent ? Condition.urgent : Condition.worker
    if isUrgent { state.isUrgentThreadIdle = true } else { state.idleWorkerCount += 1 }
    if let deadline = state.queue.nextDeadline, !state.hasTimekeeper {
      state.hasTimekeeper = true
      monitor.wait(condition, nanoseconds: deadline - now)
      state.hasTimekeeper = false
    } else {
      monitor.wait(condition)
    }
    if isUrgent { state.isUrgentThreadIdle = false } else { state.idleWorkerCount -= 1 }
  }

  /// Wakes a thread that may take what was just queued.
  private func wakeThread(urgent: Bool) {
    if urgent && state.isUrgentThreadIdle {
      // Taken back here already, so that a second urgent job wakes a worker.
      state.isUrgentThreadIdle = false
      monitor.signal(Condition.urgent)
    } else if state.idleWorkerCount > 0 {
      monitor.signal(Condition.worker)
    }
  }

  private func advanceGeneration() {
    state.generation += 1
    if state.waiterCount > 0 { monitor.broadcast(Condition.waiter) }
  }
}
