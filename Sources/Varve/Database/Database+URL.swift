public import Foundation

/// Databases by URL, for programs that identify files by URL.
extension Database {
  /// Opens a database, or creates it if there is none and the options allow that.
  ///
  /// Throws `.invalidArgument` if the URL is not a file URL, and otherwise what `open(at:definition:options:)` throws
  /// for its path.
  @_disfavoredOverload
  public static func open(
    at url: URL, definition: DatabaseDefinition = DatabaseDefinition(), options: DatabaseOptions = DatabaseOptions()
  ) throws -> Database {
    try open(at: try path(of: url), definition: definition, options: options)
  }

  /// Opens a database without blocking the task's thread: see the synchronous form.
  public static func open(
    at url: URL, definition: DatabaseDefinition = DatabaseDefinition(), options: DatabaseOptions = DatabaseOptions()
  ) async throws -> Database {
    try await open(at: try path(of: url), definition: definition, options: options)
  }

  /// Opens a database with a definition that is written in a closure: see ``DatabaseDefinition``.
  @_disfavoredOverload
  public static func open(
    at url: URL, options: DatabaseOptions = DatabaseOptions(),
    @DatabaseDefinitionBuilder definition: () throws -> DatabaseDefinition
  ) throws -> Database {
    try open(at: try path(of: url), definition: try definition(), options: options)
  }

  /// Opens a database with a definition that is written in a closure, without blocking the task's thread.
  public static func open(
    at url: URL, options: DatabaseOptions = DatabaseOptions(),
    @DatabaseDefinitionBuilder definition: () throws -> DatabaseDefinition
  ) async throws -> Database {
    try await open(at: try path(of: url), definition: try definition(), options: options)
  }

  /// Returns the default location of a database. Its parent directories are created, accessible to the user alone.
  ///
  /// ```swift
  /// let database = try Database.open(at: Database.defaultURL(name: "library"))
  /// ```
  ///
  /// The location is `<data of the user>/<program>/<name>`. The data of the user are in Application Support on Apple's
  /// platforms; elsewhere in `$XDG_DATA_HOME`, or in `~/.local/share` if that is not set or not an absolute path. The
  /// folder is named `program`, which is by default the bundle's identifier, or for an executable without one the name
  /// of the process. If an executable is renamed, pass its former name as `program` or move the folder.
  ///
  /// Throws `.invalidArgument` if the name or the program is empty, `.` or `..`, or contains a `/` or a NUL, and
  /// `.storage` if the user's data directory does not exist or the directories cannot be created. Safe from any thread.
  public static func defaultURL(name: String, program: String? = nil) throws -> URL {
    try DefaultLocation.current().url(name: name, program: program)
  }

  private static func path(of url: URL) throws -> String {
    guard url.isFileURL else { throw DatabaseError(.invalidArgument, "\(url.absoluteString) is not a file URL") }
    return url.path
  }
}
