internal import VarveEngine

/// Opens a database on disk, and does what the options say where it is damaged: what the engine finds, and what the
/// object floor finds in its catalog.
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
    // What stands beside the directory is named by its path.
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
      // Someone else may have replaced it since.
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
        if let backend = backend as? EngineBackend { try DamageMending(backend)?.finish() }
        try FileMarks(options).set(at: path)
      } catch {
        try? backend.close()
        throw error
      }
    }
    return try DatabaseOpening(backend, path, definition, options).run()
  }
}
