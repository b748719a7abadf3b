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
        if let backend = backend as? EngineBackend {
          try backend.requireNoOtherContent(path)
          try DamageRepair(backend)?.finish()
        }
        try FileMarks(options).set(at: path)
      } catch {
        try? backend.close()
        throw error
      }
    }
    return try DatabaseOpening(backend, path, definition, options).run()
  }
}

extension EngineBackend {
  /// Throws `.notADatabase` if a program has put something into the engine, and it holds no database of objects.
  ///
  /// Otherwise opening it would add the families of the object database to those of the program, which would from then
  /// on own a mixture of both. What an interrupted first opening has left has no entries.
  fileprivate func requireNoOtherContent(_ path: String) throws {
    let families = engine.families
    let names = Set(families.map(\.name))
    if names.isSuperset(of: ["catalog", "objects"]) { return }
    let other: ColumnFamily?
    do {
      other = try families.first { family in
        if family.id != .default, !Catalog.Families.names.contains(family.name) { return true }
        var cursor = try engine.cursor(in: family)
        try cursor.seekToFirst()
        return cursor.isValid
      }
    } catch let error as EngineError {
      throw DatabaseError(error)
    }
    guard let other else { return }
    throw DatabaseError(
      .notADatabase,
      "\(path) holds no database of objects, but a database of the engine, with the family \"\(other.name)\"; open it with `Engine.open`, or choose another path"
    )
  }
}
