extension Engine {
  /// Opens a database, or creates it if it does not exist and the options allow it.
  ///
  /// Throws `.notFound` if the directory does not exist and must not be created, `.notADatabase` for a file or a
  /// directory with other content, `.locked` if another engine has the database open, `.alreadyExists` with
  /// `errorIfExists`, `.unsupportedFormat`, `.corruption`, `.invalidArgument`, and errors of the file system; with
  /// `readOnly` also `.busy`, if another process frees its log faster than it can be read. After an error no data is
  /// lost, and a later open can succeed.
  ///
  /// Complexity: opens no table; replays the log records whose entries are not in tables yet.
  public static func open(
    at path: String, options: EngineOptions = EngineOptions(), environment: EngineEnvironment = .system
  ) throws(EngineError) -> Engine {
    try Opening(path: path, options: options, environment: environment).run()
  }

  /// Opens a database that replaces another one, and whose new commits have sequence numbers above `sequence`.
  ///
  /// If `sequence` is at least the last sequence number of the replaced database, a number that a program kept from
  /// that database never denotes a commit of this one. If this database already has a commit above `sequence`, it
  /// continues from that commit.
  package static func open(
    at path: String, options: EngineOptions, countingFrom sequence: SequenceNumber,
    environment: EngineEnvironment = .system
  ) throws(EngineError) -> Engine {
    var opening = Opening(path: path, options: options, environment: environment)
    opening.sequenceBase = sequence
    return try opening.run()
  }

  /// Removes a database: every file that an engine could have made there, and then the directory if it is empty.
  ///
  /// Throws `.notFound` if the path does not exist, `.locked` if an engine has the database open, and `.notADatabase`
  /// if the directory contains no database.
  public static func destroy(at path: String, environment: EngineEnvironment = .system) throws(EngineError) {
    var fileSystem = environment.fileSystem
    guard let attributes = try fileSystem.attributes(path) else {
      throw EngineError(.notFound, "no database exists here", file: path)
    }
    guard attributes.isDirectory, try fileSystem.attributes(path + "/" + FileName.current.name) != nil else {
      throw EngineError(.notADatabase, "no database exists here: CURRENT is missing", file: path)
    }
    fileSystem = try fileSystem.anchored(at: path)
    let lock = try fileSystem.lock(path + "/" + FileName.lock.name)
    defer { lock.release() }
    // CURRENT is removed last, except for the lock, so that an interrupted destroy can be repeated.
    let files = try fileSystem.list(path).compactMap { FileName($0) }.filter { $0 != .lock && $0 != .current }
    for file in files.sorted(by: { $0.name < $1.name }) + [.current, .lock] {
      try fileSystem.remove(path + "/" + file.name)
    }
    if try fileSystem.list(path).isEmpty { try fileSystem.removeDirectory(path) }
  }
}
