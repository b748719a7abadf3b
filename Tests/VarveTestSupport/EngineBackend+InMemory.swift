public import Varve
internal import VarveEngine

extension EngineBackend {
  /// Returns the storage of a new engine on files in memory.
  public static func inMemory() throws -> EngineBackend {
    try EngineBackend(try Engine.open(at: "/db", environment: .inMemory()))
  }
}
