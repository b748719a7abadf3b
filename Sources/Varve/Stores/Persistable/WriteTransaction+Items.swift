/// Writing items of ``Persistable`` types by calls of the transaction: `try tx.write(book)`.
extension WriteTransaction {
  /// Sets an item, new or not, and its metadata; where that is nil, the row has none then. Returns the item.
  @discardableResult
  public func write<Item: Persistable>(_ item: Item) throws -> Item {
    let door = Item.door(database)
    try door.set(item, item.id, door.own, self)
    return item
  }

  /// Sets several items: all of them, or where it throws none. Returns them.
  @discardableResult
  public func write<Item: Persistable>(_ items: some Sequence<Item>) throws -> [Item] {
    try savepoint { try items.map { try write($0) } }
  }

  /// Removes an item, found by its `id`, and its metadata. Returns false where there is none.
  @discardableResult
  public func remove<Item: Persistable>(_ item: Item) throws -> Bool {
    try Item.door(database).delete(ids: CollectionOfOne(item.id), self) == 1
  }

  /// Removes several items, found by their `id`. Returns how many there were.
  @discardableResult
  public func remove<Item: Persistable>(_ items: some Sequence<Item>) throws -> Int {
    try Item.door(database).delete(ids: items.map(\.id), self)
  }
}

// MARK: - On a database or a connection, on this thread

extension DatabaseWriter {
  /// Sets an item, new or not, and its metadata; where that is nil, the row has none then. Returns the item.
  @_disfavoredOverload
  @discardableResult
  public func write<Item: Persistable>(_ item: Item) throws -> Item { try writing { tx in try tx.write(item) } }

  /// Sets several items in one transaction. Returns them.
  @_disfavoredOverload
  @discardableResult
  public func write<Item: Persistable>(_ items: some Sequence<Item>) throws -> [Item] {
    try writing { tx in try tx.write(items) }
  }

  /// Removes an item, found by its `id`, and its metadata. Returns false where there is none.
  @_disfavoredOverload
  @discardableResult
  public func remove<Item: Persistable>(_ item: Item) throws -> Bool { try writing { tx in try tx.remove(item) } }

  /// Removes several items in one transaction, found by their `id`. Returns how many there were.
  @_disfavoredOverload
  @discardableResult
  public func remove<Item: Persistable>(_ items: some Sequence<Item>) throws -> Int {
    try writing { tx in try tx.remove(items) }
  }
}

// MARK: - On a database or a connection, for tasks

extension DatabaseWriter {
  /// Sets an item, new or not, and its metadata; where that is nil, the row has none then. Returns the item.
  @discardableResult
  public func write<Item: Persistable>(_ item: Item) async throws -> Item {
    try await writing { tx in try tx.write(item) }
  }

  /// Sets several items in one transaction. Returns them.
  @discardableResult
  public func write<Item: Persistable>(_ items: some Sequence<Item>) async throws -> [Item] {
    let items = Array(items)
    return try await writing { tx in try tx.write(items) }
  }

  /// Removes an item, found by its `id`, and its metadata. Returns false where there is none.
  @discardableResult
  public func remove<Item: Persistable>(_ item: Item) async throws -> Bool {
    try await writing { tx in try tx.remove(item) }
  }

  /// Removes several items in one transaction, found by their `id`. Returns how many there were.
  @discardableResult
  public func remove<Item: Persistable>(_ items: some Sequence<Item>) async throws -> Int {
    let items = Array(items)
    return try await writing { tx in try tx.remove(items) }
  }
}
