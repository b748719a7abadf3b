internal import VarveEngine

/// Opens the engine for a database on disk, and does what the options say where it is damaged.
struct BackendOpening {
  let path: String
  let options: DatabaseOptions

  func run() throws -> any StorageBackend {
    do {
      return try open()
    } catch let error as DatabaseError where error.code == .corruption && !options.isReadOnly && !options.follows {
      switch options.onCorruption {
      case .fail: throw error
      case .renameAside:
        _ = try moveAside()
        return try open()
      case .salvage:
        let damaged = try moveAside()
        try salvage(from: damaged)
        return try open()
      }
    }
  }

  private func open() throws -> any StorageBackend {
    do {
      let options = options.engineOptions
      if self.options.follows { return EngineBackend(try Engine.follow(at: path, options: options)) }
      return try EngineBackend(try Engine.open(at: path, options: options))
    } catch let error as EngineError {
      throw DatabaseError(error)
    }
  }

  /// Renames the directory to the first free name of its kind, and returns it.
  private func moveAside() throws -> String {
    let fileSystem = EngineEnvironment.system.fileSystem
    do throws(EngineError) {
      var number = 1
      while try fileSystem.attributes("\(path).\(number).corrupt") != nil { number += 1 }
      let aside = "\(path).\(number).corrupt"
      try fileSystem.rename(path, to: aside)
      return aside
    } catch {
      throw DatabaseError(error)
    }
  }

  private func salvage(from damaged: String) throws {
    do {
      try ObjectSalvage(damaged: damaged, target: path, options: options.engineOptions).run()
    } catch let error as EngineError {
      throw DatabaseError(error)
    }
  }
}
