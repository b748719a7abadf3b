/// Opening with a definition that is written where it is used: see ``DatabaseDefinition``. Each throws what the closure
/// throws, and what the form with `definition:` throws.
extension Database {
  /// Opens a database, or makes one where there is none and the options say so.
  @_disfavoredOverload
  public static func open(
    at path: String, options: DatabaseOptions = DatabaseOptions(),
    @DatabaseDefinitionBuilder definition: () throws -> DatabaseDefinition
  ) throws -> Database {
    try open(at: path, definition: try definition(), options: options)
  }

  /// The same without blocking the task's thread.
  public static func open(
    at path: String, options: DatabaseOptions = DatabaseOptions(),
    @DatabaseDefinitionBuilder definition: () throws -> DatabaseDefinition
  ) async throws -> Database {
    try await open(at: path, definition: try definition(), options: options)
  }

  /// Makes a database in memory: the same in everything, and gone when it is closed.
  @_disfavoredOverload
  public static func inMemory(
    options: DatabaseOptions = DatabaseOptions(),
    @DatabaseDefinitionBuilder definition: () throws -> DatabaseDefinition
  ) throws -> Database {
    try inMemory(definition: try definition(), options: options)
  }

  /// The same without blocking the task's thread.
  public static func inMemory(
    options: DatabaseOptions = DatabaseOptions(),
    @DatabaseDefinitionBuilder definition: () throws -> DatabaseDefinition
  ) async throws -> Database {
    try await inMemory(definition: try definition(), options: options)
  }

  /// Opens a database over a storage of the program's own. `close` closes it.
  @_disfavoredOverload
  public static func open(
    _ backend: any StorageBackend, path: String, options: DatabaseOptions = DatabaseOptions(),
    @DatabaseDefinitionBuilder definition: () throws -> DatabaseDefinition
  ) throws -> Database {
    try open(backend, path: path, definition: try definition(), options: options)
  }

  /// The same without blocking the task's thread.
  public static func open(
    _ backend: any StorageBackend, path: String, options: DatabaseOptions = DatabaseOptions(),
    @DatabaseDefinitionBuilder definition: () throws -> DatabaseDefinition
  ) async throws -> Database {
    try await open(backend, path: path, definition: try definition(), options: options)
  }
}
