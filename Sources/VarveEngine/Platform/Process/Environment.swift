/// The resources that the engine gets from its environment: files, a clock, random numbers and threads.
///
/// With the same environment, the same calls give the same bytes. The simulations in the tests rely on this.
public struct EngineEnvironment: Sendable {
  /// The file system with the database's files.
  public var fileSystem: any FileSystem
  /// The clock.
  public var clock: any EngineClock
  /// A source of random 64-bit numbers, for life ids of segments and ids of tables.
  public var random: @Sendable () -> UInt64
  /// Creates the executor of an engine that opens, with the requested number of threads. It is shut down when the
  /// engine closes.
  public var makeExecutor: @Sendable (_ threads: Int) -> any BackgroundExecutor

  /// Creates an environment.
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
  /// The environment of this machine: its files, its clock, its random numbers, and threads of the engine's own.
  public static var system: EngineEnvironment {
    EngineEnvironment(
      fileSystem: PosixFileSystem(), clock: SystemClock(), random: { UInt64.random(in: .min ... .max) },
      makeExecutor: { ThreadPool(threads: $0) })
  }

  /// Returns the environment of this machine with files in memory, with at most `capacity` bytes in total, for
  /// temporary databases.
  public static func inMemory(capacity: UInt64 = UInt64(Int64.max)) -> EngineEnvironment {
    var environment = system
    environment.fileSystem = MemoryFileSystem(capacity: capacity)
    return environment
  }
}
