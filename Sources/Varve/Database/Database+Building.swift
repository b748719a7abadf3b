/// Opening with a definition that is written in a closure: see ``DatabaseDefinition``. Each method throws what the
/// closure throws, and what the form with `definition:` throws.
extension Database {
  /// Opens a database, or creates it if there is none and the options allow that.
  @_disfavoredOverload
  public static func open(
    at path: String, options: DatabaseOptions = DatabaseOptions(),
    @DatabaseDefinitionBuilder definition: () throws -> DatabaseDefinition
  ) throws -> Database {
    try open(at: path, definition: try definition(), options: options)
  }

  /// Opens a database without blocking the task's thread: see the synchronous form.
  public static func open(
    at path: String, options: DatabaseOptions = DatabaseOptions(),
    @DatabaseDefinitionBuilder definition: () throws -> DatabaseDefinition
  ) async throws -> Database {
    try await open(at: path, definition: try definition(), options: options)
  }

  /// Creates a database in memory, which works like one on disk and is gone when it is closed.
  @_disfavoredOverload
  public static func inMemory(
    options: DatabaseOptions = DatabaseOptions(),
    @DatabaseDefinitionBuilder definition: () throws -> DatabaseDefinition
  ) throws -> Database {
    try inMemory(definition: try definition(), options: options)
  }

  /// Creates a database in memory without blocking the task's thread: see the synchronous form.
  public static func inMemory(
    options: DatabaseOptions = DatabaseOptions(),
    @DatabaseDefinitionBuilder definition: () throws -> DatabaseDefinition
  ) async throws -> Database {
    try await inMemory(definition: try definition(), options: options)
  }

  /// Opens a database over a storage that the program implements. `close` closes the storage.
  @_disfavoredOverload
  public static func open(
    _ backend: any StorageBackend, path: String, options: DatabaseOptions = DatabaseOptions(),
    @DatabaseDefinitionBuilder definition: () throws -> DatabaseDefinition
  ) throws -> Database {
    try open(backend, path: path, definition: try definition(), options: options)
  }

  /// Opens a database over a storage that the program implements, without blocking the task's thread.
  public static func open(
    _ backend: any StorageBackend, path: String, options: DatabaseOptions = DatabaseOptions(),
    @DatabaseDefinitionBuilder definition: () throws -> DatabaseDefinition
  ) async throws -> Database {
    try await open(backend, path: path, definition: try definition(), options: options)
  }
}
