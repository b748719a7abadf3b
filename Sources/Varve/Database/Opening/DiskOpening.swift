internal import VarveEngine

/// Opens a database on disk, and handles damage as the options specify, whether the engine detects it or the object
/// database does in its catalog.
struct DiskOpening {
  private let path: String
  private let definition: DatabaseDefinition
  private let options: DatabaseOptions
  private let environment: EngineEnvironment

  init(
    _ path: String, _ definition: DatabaseDefinition, _ options: DatabaseOptions,
    environment: EngineEnvironment = .system
  ) {
    self.environment = environment
    // Trailing slashes are removed because the names of files next to the directory are derived from its path.
    var path = path[...]
    while path.count > 1, path.hasSuffix("/") { path.removeLast() }
    self.path = String(path)
    self.definition = definition
    self.options = options
  }

  private var mayWrite: Bool { !options.isReadOnly && !options.follows }

  func run() throws -> DatabaseCore {
    let replacement = DatabaseReplacement(
      path: path, options: options.engineOptions, clock: options.clock, environment: environment)
    if mayWrite { try replacement.finish() }
    do {
      return try open()
    } catch let error as DatabaseError where error.code == .corruption && mayWrite && options.onCorruption != .fail {
      return try replacement.exclusively { try replace(with: replacement) }
    }
  }

  private func replace(with replacement: DatabaseReplacement) throws -> DatabaseCore {
    do {
      // Another process may have replaced it since.
      return try open()
    } catch let error as DatabaseError where error.code == .corruption {
      let aside = try replacement.run(saves: options.onCorruption == .salvage)
      DatabaseLog.replaced(path: path, aside: aside, saves: options.onCorruption == .salvage, error)
      return try open()
    }
  }

  private func open() throws -> DatabaseCore {
    let backend = try BackendOpening(path: path, options: options, environment: environment).run()
    if mayWrite {
      do {
        if let backend = backend as? EngineBackend { try DamageRepair(backend)?.finish() }
        try FileMarks(options).set(at: path)
      } catch {
        try? backend.close()
        throw error
      }
    }
    return try DatabaseOpening(backend, path, definition, options).run()
  }
}
