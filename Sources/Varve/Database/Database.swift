internal import VarveEngine

/// A database of objects: rows of typed objects by collection and key, transactions, extensions, changes.
///
/// ```swift
/// let database = try Database.open(at: "/tmp/example.varve")
/// try database.write { tx in try tx.set(book, key: book.id, in: "books") }
/// let book = try database.read { tx in try tx.object(Book.self, key: id, in: "books") }
/// try database.close()
/// ```
///
/// There are two vocabularies for the same rows. ``Store`` and ``Persistable`` work with typed values: `load`,
/// `persist`, `insert`, `update`, `modify`, `delete`, `contains`, `count`. The methods of a transaction work with rows
/// by collection and key, as in a dictionary: `object`, `set`, `remove`, `replaceObject`, `replaceMetadata` and
/// `touch…`. Extensions are notified of the writes of both.
///
/// # Transactions
/// There is one writer at a time, in order of arrival; readers never wait. The writes of a closure are committed
/// atomically. Others see them once the commit is acknowledged, which is when it is as durable as the transaction
/// requested.
///
/// Safe from any thread and any actor.
public final class Database: Sendable {
  package let core: DatabaseCore

  init(_ core: DatabaseCore) { self.core = core }

  /// The directory of the database, or `:memory:` for one in memory.
  public var path: String { core.path }

  /// Whether the disk is full, and the database refuses all writes but those that free space: deletes, and what belongs
  /// to them. It accepts all writes again, without a call, when there is space. Safe from any thread.
  public var acceptsOnlyDeletes: Bool { core.backend.acceptsOnlyDeletes }

  /// A number that distinguishes this database from its copies: a backup has a different one than its source. It is
  /// kept when the database is closed, moved or repaired. A copy of the files that another program made has the same
  /// number.
  public var incarnation: UInt64 { core.backend.incarnation }

  // MARK: - Opening

  /// Opens a database, or creates it if there is none and the options allow that.
  ///
  /// Throws `.notFound`, `.locked` if another process has it open, `.pathIsFile` and `.notADatabase` if something else
  /// is at the path, `.definitionDiffers`, `.alreadyDefined` and `.invalidDefinition` for a definition that contradicts
  /// itself, `.unsupportedVersion`, `.corruption` depending on `options.onCorruption`, `.invalidArgument`, and
  /// `.storage` with the engine's error as its cause, for example if permissions are missing. If the definition has
  /// extensions, throws what their registration throws.
  @_disfavoredOverload
  public static func open(
    at path: String, definition: DatabaseDefinition = DatabaseDefinition(),
    options: DatabaseOptions = DatabaseOptions()
  ) throws -> Database {
    try options.validate()
    try definition.check()
    return try open(try DiskOpening(path, definition, options).run(), definition)
  }

  /// Creates a database in memory, which works like one on disk and is gone when it is closed.
  @_disfavoredOverload
  public static func inMemory(
    definition: DatabaseDefinition = DatabaseDefinition(), options: DatabaseOptions = DatabaseOptions()
  ) throws -> Database {
    try options.validate()
    try definition.check()
    let engine = try Engine.open(at: "/varve", options: options.engineOptions, environment: .inMemory())
    let backend = try EngineBackend(
      engine, isInMemory: true, checkpointSystem: EngineEnvironment.system.fileSystem)
    return try open(backend, path: ":memory:", definition: definition, options: options)
  }

  /// Opens a database over a storage that the program implements. `close` closes the storage.
  @_disfavoredOverload
  public static func open(
    _ backend: any StorageBackend, path: String, definition: DatabaseDefinition = DatabaseDefinition(),
    options: DatabaseOptions = DatabaseOptions()
  ) throws -> Database {
    do {
      try definition.check()
    } catch {
      try? backend.close()
      throw error
    }
    return try open(try DatabaseOpening(backend, path, definition, options).run(), definition)
  }

  private static func open(_ core: DatabaseCore, _ definition: DatabaseDefinition) throws -> Database {
    do {
      try definition.registerIndexes(in: core)
      for defined in definition.extensions { try defined.register(core) }
      return Database(core)
    } catch {
      try? core.backend.close()
      throw error
    }
  }

  /// Closes the database. Throws `.writerBusy` without any effect while transactions run, inside `perform`, in the
  /// handler of a task, and while a scheduler is being stopped by a handler: the work of extensions, such as the
  /// running of tasks, then continues.
  ///
  /// Throws `.storage` if the storage fails while it is closed, for example because its last flush did not fit on the
  /// disk. The database is closed nevertheless, and no commit is lost: the log has the changes that are in no table,
  /// and the next open reads them from there.
  ///
  /// A second call does nothing. If the first one has not ended, the second waits for it, at most as long as for a
  /// writer, and then throws `.writerBusy`.
  public func close() throws { try core.close() }

  // MARK: - Transactions

  /// Reads one snapshot, on the calling thread.
  ///
  /// Inside a write on the same thread, it sees the changes of that write. Throws what `body` throws.
  @_disfavoredOverload
  public func read<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result {
    if let performing = core.performingRead { return try performing.runHere(body) }
    return try core.read(body)
  }

  /// Changes the database atomically, on the calling thread: if `body` throws, nothing is changed.
  ///
  /// Inside a write on the same thread, it is a savepoint: if it throws, only its own changes are undone. Returns when
  /// the commit was acknowledged; if `body` changed nothing, when the commits that it has read were. Throws what `body`
  /// throws; `.writerBusy` if the writer is not free in time: within `writerTimeout`, or that of `DatabaseOptions`;
  /// `.writeInsideRead`; `.readOnly`; `.doomed`; and `.outcomeUnknown` if the commit may have happened.
  @_disfavoredOverload
  @discardableResult
  public func write<Result>(
    label: String? = nil, durability: StorageDurability? = nil, writerTimeout: Duration? = nil,
    _ body: (WriteTransaction) throws -> Result
  ) throws -> Result {
    if let performing = core.performing { return try performing.nestHere(body) }
    var terms = WriteTerms(label: label, durability: durability)
    terms.writerTimeout = writerTimeout
    return try core.write(terms, body)
  }

  /// Changes the database concurrently with other such writers. Use it for closures that take long and rarely conflict.
  ///
  /// The closure runs again if something that it read has changed before its commit, so it should do nothing but read
  /// and write through its transaction. At the first change for an extension that does not support concurrent writes
  /// (`ExtensionConfiguration.isConcurrent`), the attempt ends, and the closure runs again with the writer held; the
  /// same happens after eight attempts. `statistics` counts the former. Throws as `write` does.
  @_disfavoredOverload
  @discardableResult
  public func writeConcurrently<Result>(
    label: String? = nil, durability: StorageDurability? = nil, _ body: (WriteTransaction) throws -> Result
  ) throws -> Result {
    if let performing = core.performing { return try performing.nestHere(body) }
    return try core.writeConcurrently(WriteTerms(label: label, durability: durability), body)
  }
}
