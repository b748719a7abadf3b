internal import VarveEngine

/// Opens the engine for a database on disk.
package struct BackendOpening {
  let path: String
  let options: DatabaseOptions
  let environment: EngineEnvironment

  package init(path: String, options: DatabaseOptions) { self.init(path: path, options: options, environment: .system) }

  init(path: String, options: DatabaseOptions, environment: EngineEnvironment) {
    self.path = path
    self.options = options
    self.environment = environment
  }

  /// Whether a file is where the directory should be.
  private var isFile: Bool { (try? environment.fileSystem.attributes(path))?.isDirectory == false }

  private var isMissing: Bool {
    do { return try environment.fileSystem.attributes(path) == nil } catch { return false }
  }

  /// The error for a database that does not exist, which names the options of this module. If they are to create it,
  /// the directory around it is missing.
  private func missingError(_ error: DatabaseError) -> DatabaseError {
    let reason =
      options.follows
      ? "follows is true"
      : options.isReadOnly
        ? "isReadOnly is true"
        : options.createsIfMissing ? "the directory that is to contain it is missing" : "createsIfMissing is false"
    return DatabaseError(.notFound, "no database exists at \(path), and \(reason)", cause: error.cause)
  }

  package func run() throws -> any StorageBackend {
    do {
      let options = options.engineOptions
      if self.options.follows {
        return EngineBackend(try Engine.follow(at: path, options: options, environment: environment))
      }
      return try EngineBackend(try Engine.open(at: path, options: options, environment: environment))
    } catch let error as EngineError {
      let error = DatabaseError(error)
      if error.code == .notFound, isMissing { throw missingError(error) }
      guard error.code == .notADatabase, isFile else { throw error }
      throw DatabaseError(.pathIsFile, error.message, cause: error.cause)
    }
  }
}
