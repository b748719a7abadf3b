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
/// The same rows have two vocabularies. Typed values, by ``Store`` or ``Persistable``: `load`, `persist`, `insert`,
/// `update`, `modify`, `delete`, `contains`, `count`. Rows, by collection and key, as in a dictionary: `object`, `set`,
/// `remove`, `replaceObject`, `replaceMetadata` and `touch…` of a transaction. Whichever writes, every extension is
/// notified.
///
/// # Transactions
/// One writer at a time, in order of arrival; readers never wait. What a closure wrote is committed together or not
/// at all; it is seen by others when it was acknowledged: as durable as the transaction asked.
///
/// Safe from any thread and any actor.
public final class Database: Sendable {
  package let core: DatabaseCore

  init(_ core: DatabaseCore) { self.core = core }

  /// The directory of the database; `:memory:` of one in memory.
  public var path: String { core.path }

  /// Identifies this database among its copies: a backup has another one than the database that it was made of. It is kept when the
  /// database is closed, moved or repaired; a copy that another program has made of its files has it too.
  public var incarnation: UInt64 { core.backend.incarnation }

  // MARK: - Opening

  /// Opens a database, or makes one where there is none and the options say so.
  ///
  /// Throws `.notFound`, `.locked` where another process has it open, `.pathIsFile` and `.notADatabase` where something
  /// else is at the path, `.definitionDiffers`, `.alreadyDefined` and `.invalidDefinition` for a definition that contradicts
  /// itself, `.unsupportedVersion`, `.corruption` as `options.onCorruption` says,
  /// `.invalidArgument`, and `.storage` with the engine's error below: no permission, for instance. Where the definition
  /// has extensions, what their registration throws.
  @_disfavoredOverload
  public static func open(
    at path: String, definition: DatabaseDefinition = DatabaseDefinition(),
    options: DatabaseOptions = DatabaseOptions()
  ) throws -> Database {
    try options.validate()
    try definition.check()
    return try open(try DiskOpening(path, definition, options).run(), definition)
  }

  /// Makes a database in memory: the same in everything, and gone when it is closed.
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

  /// Opens a database over a storage of the program's own. `close` closes it.
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

  /// Ends the database. Throws `.writerBusy` where transactions run, and inside of `perform`: nothing has happened then.
  ///
  /// Throws `.storage` where the storage fails while it is closed: its last flush did not fit on the disk, for example.
  /// The database is closed then all the same, and no commit is lost: the log has what is in no table, and the next
  /// open reads it from there.
  ///
  /// A second call does nothing. Where the first has not ended it waits for that, at most as long as for a writer, and
  /// then throws `.writerBusy`.
  public func close() throws { try core.close() }

  // MARK: - Transactions

  /// Reads one snapshot, on this thread.
  ///
  /// Inside of a write on the same thread it sees what that has written. Throws what `body` throws.
  @_disfavoredOverload
  public func read<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result {
    if let performing = core.performingRead { return try performing.runHere(body) }
    return try core.read(body)
  }

  /// Changes the database, on this thread: all of it, or where `body` throws nothing.
  ///
  /// Inside of a write on the same thread it is a savepoint: where it throws, it alone is undone. Returns when the
  /// commit was acknowledged. Throws what `body` throws; `.writerBusy` where the writer isn't free in time;
  /// `.writeInsideRead`; `.readOnly`; `.doomed`; and `.outcomeUnknown` where the commit may have happened.
  @_disfavoredOverload
  @discardableResult
  public func write<Result>(
    label: String? = nil, durability: StorageDurability? = nil, _ body: (WriteTransaction) throws -> Result
  ) throws -> Result {
    if let performing = core.performing { return try performing.nestHere(body) }
    return try core.write(WriteTerms(label: label, durability: durability), body)
  }

  /// Changes the database beside other such writers: for closures that take long and seldom meet.
  ///
  /// The closure runs again where something that it read has changed before its commit, so it should do nothing but
  /// read and write through its transaction. At the first change that an extension receives which does not work side by
  /// side (`ExtensionConfiguration.isConcurrent`), the attempt ends, and the closure runs again holding the writer; so
  /// it does after eight attempts. `statistics` counts the former. Throws as `write` does.
  @_disfavoredOverload
  @discardableResult
  public func writeConcurrently<Result>(
    label: String? = nil, durability: StorageDurability? = nil, _ body: (WriteTransaction) throws -> Result
  ) throws -> Result {
    if let performing = core.performing { return try performing.nestHere(body) }
    return try core.writeConcurrently(WriteTerms(label: label, durability: durability), body)
  }
}
