internal import Synchronization
public import VarveEngine

/// Background work that runs only when it is stepped, one job at a time, in an order drawn from a seed:
/// the same seed and the same calls give the same run.
///
/// Nothing runs on a thread of its own: `step`, `runAll` and `wait` run jobs on the thread that calls
/// them. A delayed job may be drawn once the clock has reached its time. `wait` lets the clock jump to
/// the next delayed job when nothing else is left to run.
///
/// # Concurrency
/// Any thread may submit. Jobs run one after another as long as one thread steps, and a job must not
/// step itself except by `wait`.
public final class SteppedExecutor: BackgroundExecutor {
  private struct Job {
    let name: String
    /// Nil for a delayed job.
    let priority: BackgroundPriority?
    let due: UInt64
    let body: @Sendable () -> Void
  }

  private struct State {
    var random: SeededRandom
    var jobs: [Job] = []
    var trace: [String] = []
    var isShutDown = false
  }

  /// How many jobs the engine may believe to run side by side.
  public let parallelism: Int
  /// The clock that delayed jobs look at.
  public let clock: ManualClock
  private let respectsPriority: Bool
  private let watch: ContentWatch?
  private let state: Mutex<State>

  /// An executor whose order is drawn from `seed`. With `respectsPriority` a job is drawn among those
  /// of the highest priority only. `watch` looks at the content before and after jobs.
  public init(
    seed: UInt64, clock: ManualClock = ManualClock(), parallelism: Int = 2, respectsPriority: Bool = false,
    watch: ContentWatch? = nil
  ) {
    self.watch = watch
    self.parallelism = parallelism
    self.clock = clock
    self.respectsPriority = respectsPriority
    state = Mutex(State(random: SeededRandom(seed: seed)))
  }

  /// Queues `body`.
  public func submit(_ name: String, priority: BackgroundPriority, _ body: @escaping @Sendable () -> Void) {
    add(Job(name: name, priority: priority, due: 0, body: body))
  }

  /// Queues `body` for when the clock has moved on.
  public func submit(_ name: String, after nanoseconds: UInt64, _ body: @escaping @Sendable () -> Void) {
    add(Job(name: name, priority: nil, due: clock.now() + nanoseconds, body: body))
  }

  private func add(_ job: Job) {
    state.withLock { state in
      if !state.isShutDown { state.jobs.append(job) }
    }
  }

  /// Runs one job that may run now. False if there is none.
  @discardableResult
  public func step() -> Bool {
    guard let job = takeJob() else { return false }
    run(job)
    return true
  }

  /// Runs one job that may run now and whose name begins with `prefix`. False if there is none.
  @discardableResult
  public func step(named prefix: String) -> Bool {
    guard let job = takeJob(named: prefix) else { return false }
    run(job)
    return true
  }

  private func run(_ job: Job) {
    if let watch { watch.run(job.name, job.body) } else { job.body() }
  }

  /// More jobs than any test queues at one time.
  private static let jobCountMaximum = 10_000

  /// Runs jobs until none may run; returns how many ran. The clock stands still. Stops the program if there is no end to
  /// them: where a real engine would keep a thread busy for ever.
  @discardableResult
  public func runAll() -> Int {
    var count = 0
    while step() {
      count += 1
      if count == Self.jobCountMaximum { fatalError("jobs start other jobs without an end: \(trace.suffix(4))") }
    }
    return count
  }

  /// Runs jobs on the calling thread until `condition` is true. Stops the program if it can't become
  /// true any more: where a real engine would hang.
  public func wait(until condition: @Sendable () -> Bool) {
    while !condition() {
      if step() { continue }
      guard let due = nextDue() else {
        fatalError("waiting for background work, and there is none left: the jobs so far: \(trace)")
      }
      clock.advance(to: due)
    }
  }

  /// Does nothing: who waits is who runs the jobs.
  public func wakeWaiters() {}

  /// Drops all jobs and takes no more.
  public func shutDown() {
    let dropped = state.withLock { state in
      state.isShutDown = true
      defer { state.jobs = [] }
      return state.jobs
    }
    withExtendedLifetime(dropped) {}
  }

  /// The names of the jobs that wait, in order of submission.
  public var pending: [String] { state.withLock { $0.jobs.map(\.name) } }
  /// The names of the jobs that ran.
  public var trace: [String] { state.withLock { $0.trace } }

  private func nextDue() -> UInt64? { state.withLock { $0.jobs.map(\.due).min() } }

  private func takeJob(named prefix: String = "") -> Job? {
    let now = clock.now()
    return state.withLock { state in
      var ready = state.jobs.indices.filter { state.jobs[$0].due <= now && state.jobs[$0].name.hasPrefix(prefix) }
      if respectsPriority {
        let best = ready.map { state.jobs[$0].priority ?? .normal }.max()
        ready = ready.filter { (state.jobs[$0].priority ?? .normal) == best }
      }
      guard !ready.isEmpty else { return nil }
      let job = state.jobs.remove(at: ready[state.random.below(ready.count)])
      state.trace.append(job.name)
      return job
    }
  }
}
