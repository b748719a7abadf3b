import EngineTestSupport
import Synchronization
import VarveEngine

/// What a run's engines take from the world: files in memory and, in stepped runs, a clock, random
/// numbers and background work that come from the seed alone.
final class ModelEnvironment: Sendable {
  enum Execution: String, Sendable {
    case stepped, threads
  }

  let environment: EngineEnvironment
  /// Looks at the content around the jobs of stepped runs.
  let watch: ContentWatch
  private let clock: ManualClock
  private let current: CurrentExecutor

  private final class CurrentExecutor: Sendable {
    let executor = Mutex<SteppedExecutor?>(nil)
  }

  private final class RandomSource: Sendable {
    let random: Mutex<SeededRandom>
    init(seed: UInt64) { random = Mutex(SeededRandom(seed: seed)) }
    func next() -> UInt64 { random.withLock { $0.next() } }
  }

  /// `usesMapping`: whether the file system maps files, so that the log is stored through a mapping. Only
  /// stepped runs go without. `watchOneIn`: the content is looked at around one job in so many.
  init(_ execution: Execution, seed: UInt64, usesMapping: Bool = true, watchOneIn: Int) {
    let watch = ContentWatch(seed: seed, oneIn: watchOneIn)
    self.watch = watch
    // Not at zero, where a clock looks as if it had not been asked yet.
    let clock = ManualClock(1_000_000_000)
    let current = CurrentExecutor()
    self.clock = clock
    self.current = current
    switch execution {
    case .threads: environment = .inMemory()
    case .stepped:
      let source = RandomSource(seed: seed)
      environment = EngineEnvironment(
        fileSystem: usesMapping
          ? MemoryFileSystem() : FaultInjectingFileSystem(MemoryFileSystem(), mapsFiles: false),
        clock: clock, random: { source.next() },
        makeExecutor: { threads in
          let executor = SteppedExecutor(seed: source.next(), clock: clock, parallelism: threads, watch: watch)
          current.executor.withLock { $0 = executor }
          return executor
        })
    }
  }

  /// Lets time pass and, if asked for, runs one job. Does nothing where threads do the work.
  func tick(step: Bool) {
    guard let executor = current.executor.withLock({ $0 }) else { return }
    clock.advance(1_000_000)
    if step { executor.step() }
  }
}
