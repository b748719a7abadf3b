/// Writing an item by a call of its own: `try book.write(to: tx)`.
extension Persistable {
  /// Sets the item, new or not, and its metadata; where that is nil, the row has none then. Returns the item.
  @discardableResult
  public func write(to tx: WriteTransaction) throws -> Self { try tx.write(self) }

  /// The same in a transaction of its own, on this thread.
  @_disfavoredOverload
  @discardableResult
  public func write(to database: some DatabaseWriter) throws -> Self { try database.write(self) }

  /// The same in a transaction of its own, for tasks.
  @discardableResult
  public func write(to database: some DatabaseWriter) async throws -> Self { try await database.write(self) }

  /// Removes the item, found by its `id`, and its metadata. Returns false where there is none.
  @discardableResult
  public func remove(from tx: WriteTransaction) throws -> Bool { try tx.remove(self) }

  /// The same in a transaction of its own, on this thread.
  @_disfavoredOverload
  @discardableResult
  public func remove(from database: some DatabaseWriter) throws -> Bool { try database.remove(self) }

  /// The same in a transaction of its own, for tasks.
  @discardableResult
  public func remove(from database: some DatabaseWriter) async throws -> Bool { try await database.remove(self) }

  /// An operation that sets the item when a queue runs it.
  public func writeOperation(to database: some DatabaseWriter) -> DatabaseOperation {
    DatabaseOperation { _ = try database.write(self) }
  }

  /// An operation that removes the item when a queue runs it.
  public func removeOperation(from database: some DatabaseWriter) -> DatabaseOperation {
    DatabaseOperation { _ = try database.remove(self) }
  }
}

/// The same for several items, in one transaction.
extension Sequence where Element: Persistable {
  /// Sets the items, new or not: all of them, or where it throws none. Returns them.
  @discardableResult
  public func write(to tx: WriteTransaction) throws -> [Element] { try tx.write(self) }

  /// The same in a transaction of its own, on this thread.
  @_disfavoredOverload
  @discardableResult
  public func write(to database: some DatabaseWriter) throws -> [Element] { try database.write(self) }

  /// The same in a transaction of its own, for tasks.
  @discardableResult
  public func write(to database: some DatabaseWriter) async throws -> [Element] { try await database.write(self) }

  /// Removes the items, found by their `id`, and their metadata. Returns how many there were.
  @discardableResult
  public func remove(from tx: WriteTransaction) throws -> Int { try tx.remove(self) }

  /// The same in a transaction of its own, on this thread.
  @_disfavoredOverload
  @discardableResult
  public func remove(from database: some DatabaseWriter) throws -> Int { try database.remove(self) }

  /// The same in a transaction of its own, for tasks.
  @discardableResult
  public func remove(from database: some DatabaseWriter) async throws -> Int { try await database.remove(self) }

  /// An operation that sets the items when a queue runs it.
  public func writeOperation(to database: some DatabaseWriter) -> DatabaseOperation {
    let items = Array(self)
    return DatabaseOperation { _ = try database.write(items) }
  }

  /// An operation that removes the items when a queue runs it.
  public func removeOperation(from database: some DatabaseWriter) -> DatabaseOperation {
    let items = Array(self)
    return DatabaseOperation { _ = try database.remove(items) }
  }
}
