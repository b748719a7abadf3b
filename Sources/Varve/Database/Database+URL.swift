public import Foundation

/// Databases by URL, for programs that name files so.
extension Database {
  /// Opens a database, or makes one where there is none and the options say so.
  ///
  /// Throws `.invalidArgument` for a URL that names no file, and else what `open(at:definition:options:)` throws for
  /// its path.
  @_disfavoredOverload
  public static func open(
    at url: URL, definition: DatabaseDefinition = DatabaseDefinition(), options: DatabaseOptions = DatabaseOptions()
  ) throws -> Database {
    try open(at: try path(of: url), definition: definition, options: options)
  }

  /// The same without blocking the task's thread.
  public static func open(
    at url: URL, definition: DatabaseDefinition = DatabaseDefinition(), options: DatabaseOptions = DatabaseOptions()
  ) async throws -> Database {
    try await open(at: try path(of: url), definition: definition, options: options)
  }

  /// The same with a definition that is written where it is used: see ``DatabaseDefinition``.
  @_disfavoredOverload
  public static func open(
    at url: URL, options: DatabaseOptions = DatabaseOptions(),
    @DatabaseDefinitionBuilder definition: () throws -> DatabaseDefinition
  ) throws -> Database {
    try open(at: try path(of: url), definition: try definition(), options: options)
  }

  /// The same without blocking the task's thread.
  public static func open(
    at url: URL, options: DatabaseOptions = DatabaseOptions(),
    @DatabaseDefinitionBuilder definition: () throws -> DatabaseDefinition
  ) async throws -> Database {
    try await open(at: try path(of: url), definition: try definition(), options: options)
  }

  /// Where a program keeps a database for which nothing else is said; the directories above it are made, for the user alone.
  ///
  /// ```swift
  /// let database = try Database.open(at: Database.defaultURL(name: "library"))
  /// ```
  ///
  /// It is `<data of the user>/<program>/<name>`. The data of the user are in Application Support on Apple's platforms;
  /// elsewhere in `$XDG_DATA_HOME`, or in `~/.local/share` where that is not set or no absolute path. The folder of the
  /// program is called as `program` says; by default as the bundle's identifier, or for an executable without one as
  /// the process. Who renames an executable names its `program`, or moves the folder.
  ///
  /// Throws `.invalidArgument` for a name, or a program's, that is empty, `.` or `..`, or has a `/` or a NUL in it; and
  /// `.storage` where there is no such directory, or the directories can't be made. Safe from any thread.
  public static func defaultURL(name: String, program: String? = nil) throws -> URL {
    try DefaultLocation.current().url(name: name, program: program)
  }

  private static func path(of url: URL) throws -> String {
    guard url.isFileURL else { throw DatabaseError(.invalidArgument, "\(url.absoluteString) is not a file URL") }
    return url.path
  }
}
