/// What the engine gets from its surroundings: files, a clock, random numbers and threads.
///
/// With the same environment, the same calls give the same bytes. The simulations in the tests rely on this.
public struct EngineEnvironment: Sendable {
  /// Where files are.
  public var fileSystem: any FileSystem
  /// What time it is.
  public var clock: any EngineClock
  /// Random 64-bit numbers: life ids of segments, ids of tables.
  public var random: @Sendable () -> UInt64
  /// Makes the executor of an engine that opens, with the wanted number of threads; it is shut down
  /// when the engine closes.
  public var makeExecutor: @Sendable (_ threads: Int) -> any BackgroundExecutor

  /// Puts an environment together.
  public init(
    fileSystem: any FileSystem, clock: any EngineClock, random: @escaping @Sendable () -> UInt64,
    makeExecutor: @escaping @Sendable (_ threads: Int) -> any BackgroundExecutor
  ) {
    self.fileSystem = fileSystem
    self.clock = clock
    self.random = random
    self.makeExecutor = makeExecutor
  }
}

extension EngineEnvironment {
  /// This machine: its files, its clock, its random numbers, threads of the engine's own.
  public static var system: EngineEnvironment {
    EngineEnvironment(
      fileSystem: PosixFileSystem(), clock: SystemClock(), random: { UInt64.random(in: .min ... .max) },
      makeExecutor: { ThreadPool(threads: $0) })
  }

  /// The environment of this machine with files in memory, at most `capacity` bytes together, for temporary databases.
  public static func inMemory(capacity: UInt64 = UInt64(Int64.max)) -> EngineEnvironment {
    var environment = system
    environment.fileSystem = MemoryFileSystem(capacity: capacity)
    return environment
  }
}
