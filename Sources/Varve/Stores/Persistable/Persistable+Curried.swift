/// Closures to hand to a transaction: `let book = try database.read(Book.read(byKey: id))`.
extension Persistable {
  /// Reads the item with a key; nil where there is none.
  public static func read(byKey key: ID) -> @Sendable (ReadTransaction) throws -> Self? {
    { tx in try read(from: tx).byKey(key) }
  }

  /// Reads the items with several keys, in the order of these, each as often as its key; keys without one are left out.
  public static func read(byKeys keys: some Sequence<ID>) -> @Sendable (ReadTransaction) throws -> [Self] {
    let keys = Array(keys)
    return { tx in try read(from: tx).byKeys(keys) }
  }

  /// Reads the item of a row; nil where there is none.
  public static func read(at row: RowKey) -> @Sendable (ReadTransaction) throws -> Self? {
    { tx in try read(from: tx).at(row) }
  }

  /// Reads the items of several rows, in the order of these.
  public static func read(at rows: some Sequence<RowKey>) -> @Sendable (ReadTransaction) throws -> [Self] {
    let rows = Array(rows)
    return { tx in try read(from: tx).at(rows) }
  }

  /// Reads all items, in the order of their keys.
  public static func readAll() -> @Sendable (ReadTransaction) throws -> [Self] { { tx in try read(from: tx).all() } }

  /// Sets the item, and returns it.
  public func write() -> @Sendable (WriteTransaction) throws -> Self { { tx in try tx.write(self) } }

  /// Removes the item; false where there is none.
  public func remove() -> @Sendable (WriteTransaction) throws -> Bool { { tx in try tx.remove(self) } }
}
