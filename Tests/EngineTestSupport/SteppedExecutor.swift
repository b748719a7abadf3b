internal import Synchronization
public import VarveEngine

/// An executor that runs background jobs only when it is stepped, one at a time, in an order drawn from a seed.
///
/// The same seed and the same calls give the same run.
///
/// The executor has no threads: `step`, `runAll` and `wait` run jobs on the thread that calls them. A delayed job may
/// be drawn once the clock has reached its time. `wait` advances the clock to the next delayed job when no other job
/// is ready.
///
/// # Concurrency
/// Any thread may submit jobs. Only one thread may step, so jobs run one after another. A job must not step the
/// executor itself, except by `wait`.
public final class SteppedExecutor: BackgroundExecutor {
  private struct Job {
    let name: String
    /// The priority, or `nil` for a delayed job.
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

  /// The number of jobs that the engine may assume to run in parallel.
  public let parallelism: Int
  /// The clock that decides when delayed jobs are ready.
  public let clock: ManualClock
  private let respectsPriority: Bool
  private let watch: ContentWatch?
  private let state: Mutex<State>

  /// Creates an executor whose order is drawn from `seed`.
  ///
  /// With `respectsPriority`, a job is drawn only among those of the highest priority. `watch` compares the content
  /// before and after jobs.
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

  /// Adds a job that may run at once.
  public func submit(_ name: String, priority: BackgroundPriority, _ body: @escaping @Sendable () -> Void) {
    add(Job(name: name, priority: priority, due: 0, body: body))
  }

  /// Adds a job that may run once the clock has advanced by `nanoseconds`.
  public func submit(_ name: String, after nanoseconds: UInt64, _ body: @escaping @Sendable () -> Void) {
    add(Job(name: name, priority: nil, due: clock.now() + nanoseconds, body: body))
  }

  private func add(_ job: Job) {
    state.withLock { state in
      if !state.isShutDown { state.jobs.append(job) }
    }
  }

  /// Runs one job that is ready. Returns false if there is none.
  @discardableResult
  public func step() -> Bool {
    guard let job = takeJob() else { return false }
    run(job)
    return true
  }

  /// Runs one job that is ready and whose name begins with `prefix`. Returns false if there is none.
  @discardableResult
  public func step(named prefix: String) -> Bool {
    guard let job = takeJob(named: prefix) else { return false }
    run(job)
    return true
  }

  private func run(_ job: Job) {
    if let watch { watch.run(job.name, job.body) } else { job.body() }
  }

  /// A limit that no test reaches with the jobs that it queues at one time.
  private static let jobCountMaximum = 10_000

  /// Runs jobs until none is ready, and returns how many ran.
  ///
  /// The clock does not advance. Stops the program if the jobs do not end, where a real engine would keep a thread
  /// busy forever.
  @discardableResult
  public func runAll() -> Int {
    var count = 0
    while step() {
      count += 1
      if count == Self.jobCountMaximum { fatalError("jobs start other jobs without an end: \(trace.suffix(4))") }
    }
    return count
  }

  /// Runs jobs on the calling thread until `condition` is true.
  ///
  /// Stops the program if it can no longer become true, where a real engine would hang.
  public func wait(until condition: @Sendable () -> Bool) {
    while !condition() {
      if step() { continue }
      guard let due = nextDue() else {
        fatalError("waiting for background work, and there is none left: the jobs so far: \(trace)")
      }
      clock.advance(to: due)
    }
  }

  /// Does nothing: the thread that waits runs the jobs itself.
  public func wakeWaiters() {}

  /// Drops all jobs, and accepts no more.
  public func shutDown() {
    let dropped = state.withLock { state in
      state.isShutDown = true
      defer { state.jobs = [] }
      return state.jobs
    }
    withExtendedLifetime(dropped) {}
  }

  /// The names of the jobs that have not run yet, in the order of submission.
  public var pending: [String] { state.withLock { $0.jobs.map(\.name) } }
  /// The names of the jobs that ran, in the order in which they ran.
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
