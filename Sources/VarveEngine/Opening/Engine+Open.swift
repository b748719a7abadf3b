extension Engine {
  /// Opens a database, or makes one where there is none and the options say so.
  ///
  /// Throws `.notFound` for a missing directory that may not be made, `.notADatabase` for a file or a
  /// directory with something else in it, `.locked` where another engine has it open, `.alreadyExists`
  /// by `errorIfExists`, `.unsupportedFormat`, `.corruption`, `.invalidArgument`, and what the file
  /// system threw. Where it throws, nothing was lost, and nothing made that a later open minds.
  ///
  /// Complexity: no table is opened; what was not in tables yet is replayed from the log.
  public static func open(
    at path: String, options: EngineOptions = EngineOptions(), environment: EngineEnvironment = .system
  ) throws(EngineError) -> Engine {
    try Opening(path: path, options: options, environment: environment).run()
  }

  /// The same, of a database that takes the place of another one: it counts its commits on from `sequence`, so that no
  /// number which somebody has kept of the other is ever one of its own.
  package static func open(
    at path: String, options: EngineOptions, countingFrom sequence: SequenceNumber,
    environment: EngineEnvironment = .system
  ) throws(EngineError) -> Engine {
    var opening = Opening(path: path, options: options, environment: environment)
    opening.sequenceBase = sequence
    return try opening.run()
  }

  /// Removes a database: every file that an engine could have made there, and then the directory,
  /// where nothing else is in it.
  ///
  /// Throws `.notFound` where there is nothing, `.locked` where an engine has it open, and
  /// `.notADatabase` where the directory holds no database.
  public static func destroy(at path: String, environment: EngineEnvironment = .system) throws(EngineError) {
    let fileSystem = environment.fileSystem
    guard let attributes = try fileSystem.attributes(path) else {
      throw EngineError(.notFound, "no database exists here", file: path)
    }
    guard attributes.isDirectory, try fileSystem.attributes(path + "/" + FileName.current.name) != nil else {
      throw EngineError(.notADatabase, "no database exists here: CURRENT is missing", file: path)
    }
    let lock = try fileSystem.lock(path + "/" + FileName.lock.name)
    defer { lock.release() }
    // CURRENT last but for the lock: a destroy that was cut short can be done again.
    let files = try fileSystem.list(path).compactMap { FileName($0) }.filter { $0 != .lock && $0 != .current }
    for file in files.sorted(by: { $0.name < $1.name }) + [.current, .lock] {
      try fileSystem.remove(path + "/" + file.name)
    }
    if try fileSystem.list(path).isEmpty { try fileSystem.removeDirectory(path) }
  }
}
