extension EngineEnvironment {
  /// This machine: its files, its clock, its random numbers, threads of the engine's own.
  public static var system: EngineEnvironment {
    EngineEnvironment(
      fileSystem: PosixFileSystem(), clock: SystemClock(), random: { UInt64.random(in: .min ... .max) },
      makeExecutor: { ThreadPool(threads: $0) })
  }

  /// The same with files in memory, of `capacity` bytes together: for databases that need not last.
  public static func inMemory(capacity: UInt64 = UInt64(Int64.max)) -> EngineEnvironment {
    var environment = system
    environment.fileSystem = MemoryFileSystem(capacity: capacity)
    return environment
  }
}
