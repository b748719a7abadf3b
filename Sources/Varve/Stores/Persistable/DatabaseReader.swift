/// Where a program reads: a ``Database``, or a connection to one. Code that takes any of them is written against this.
public protocol DatabaseReader: Sendable {
  /// Reads one instant, on this thread. Throws what `body` throws.
  @_disfavoredOverload
  func read<Result>(_ body: (ReadTransaction) throws -> Result) throws -> Result

  /// The same for tasks.
  func read<Result: Sendable>(_ body: @Sendable (ReadTransaction) throws -> Result) async throws -> Result
}

/// Where a program reads and writes: a ``Database``, or a connection to one.
public protocol DatabaseWriter: DatabaseReader {
  /// Changes the database, on this thread: all of it, or where `body` throws nothing.
  @_disfavoredOverload
  func write<Result>(
    label: String?, durability: StorageDurability?, _ body: (WriteTransaction) throws -> Result
  ) throws -> Result

  /// The same for tasks.
  func write<Result: Sendable>(
    label: String?, durability: StorageDurability?, _ body: @Sendable (WriteTransaction) throws -> Result
  ) async throws -> Result
}

extension DatabaseReader {
  /// A read of this module's for a task, of one row or number of a collection: where it is called if memory has the
  /// answer, else as any read. A hop to another thread and back takes ten times as long as the look.
  ///
  /// `body` may be run twice, which is why closures of the program are not read so.
  func look<Result: Sendable>(
    in collection: String, _ body: @Sendable (ReadTransaction) throws -> Result
  ) async throws -> Result {
    if let database = self as? Database, let result = try database.core.readAtOnce(collection, body) { return result }
    return try await read(body)
  }
}

extension DatabaseWriter {
  /// The form without terms, for the calls of this module.
  func writing<Result>(_ body: (WriteTransaction) throws -> Result) throws -> Result {
    try write(label: nil, durability: nil, body)
  }

  func writing<Result: Sendable>(_ body: @Sendable (WriteTransaction) throws -> Result) async throws -> Result {
    try await write(label: nil, durability: nil, body)
  }
}

extension Database: DatabaseWriter {}
