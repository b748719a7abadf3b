import EngineTestSupport
import Synchronization
import VarveEngine

/// The environment of a run's engines: files in memory and, in stepped runs, a clock, random numbers and background
/// work that depend on the seed alone.
final class ModelEnvironment: Sendable {
  enum Execution: String, Sendable {
    case stepped, threads
  }

  let environment: EngineEnvironment
  /// The environment of engines that only read the same files, as in another process.
  let readerEnvironment: EngineEnvironment
  /// The check of the content before and after the jobs of stepped runs.
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

  /// Creates an environment.
  ///
  /// `usesMapping` is whether the file system maps files, so that the log is stored through a mapping. Only stepped
  /// runs use false. `watchOneIn`: the content is compared before and after one job in so many.
  init(_ execution: Execution, seed: UInt64, usesMapping: Bool = true, watchOneIn: Int) {
    let watch = ContentWatch(seed: seed, oneIn: watchOneIn)
    self.watch = watch
    // The clock does not start at 0, which would look like a clock that was not read yet.
    let clock = ManualClock(1_000_000_000)
    let current = CurrentExecutor()
    self.clock = clock
    self.current = current
    switch execution {
    case .threads:
      environment = .inMemory()
      readerEnvironment = environment
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
      readerEnvironment = EngineEnvironment(
        fileSystem: environment.fileSystem, clock: clock, random: { 0 },
        makeExecutor: { SteppedExecutor(seed: seed, clock: clock, parallelism: $0) })
    }
  }

  /// Advances the clock, and runs one job if `step` is true. Does nothing if threads do the background work.
  func tick(step: Bool) {
    guard let executor = current.executor.withLock({ $0 }) else { return }
    clock.advance(1_000_000)
    if step { executor.step() }
  }
}
