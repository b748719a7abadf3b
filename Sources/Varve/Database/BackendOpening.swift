internal import VarveEngine

/// Opens the engine for a database on disk.
struct BackendOpening {
  let path: String
  let options: DatabaseOptions
  var environment = EngineEnvironment.system

  func run() throws -> any StorageBackend {
    do {
      let options = options.engineOptions
      if self.options.follows {
        return EngineBackend(try Engine.follow(at: path, options: options, environment: environment))
      }
      return try EngineBackend(try Engine.open(at: path, options: options, environment: environment))
    } catch let error as EngineError {
      throw DatabaseError(error)
    }
  }
}
