/// Reads and observes items.
extension Persistable {
  // MARK: - Inside a transaction

  /// Returns the item with a key, or nil if there is none.
  public static func load(_ key: ID, in tx: ReadTransaction) throws -> Self? { try access(tx).load(key, tx) }

  /// Returns the items with several keys, in their order, with nil for missing ones.
  public static func load(ids keys: some Sequence<ID>, in tx: ReadTransaction) throws -> [Self?] {
    try access(tx).load(ids: keys, tx)
  }

  /// Returns the metadata of an item, or nil if it has none or does not exist. The item is not read.
  public static func metadata(of key: ID, in tx: ReadTransaction) throws -> Metadata? {
    try access(tx).metadata(of: key, tx)
  }

  /// Returns all items: `Book.load(..., in: tx)`. Throws `.invalidArgument` for a negative limit.
  public static func load(
    _ all: UnboundedRange, descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<Self> {
    try access(tx).cursor(ScanTerms(range: .all, isDescending: descending, limit: limit), tx)
  }

  /// Returns the items whose keys are in a range: `"a"..<"b"`, `5...`, `...id`, `id..>`. A descending scan begins at
  /// its end. Throws `.invalidArgument` for a negative limit.
  public static func load(
    _ range: some KeyBounds<ID> & Sendable, descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<Self> {
    try access(tx).cursor(ScanTerms(range: ScanRange(range), isDescending: descending, limit: limit), tx)
  }

  // MARK: - In a transaction of its own

  /// Returns the item with a key, or nil if there is none.
  public static func load(_ key: ID, in database: Database) async throws -> Self? {
    try await store(in: database).load(key)
  }

  /// Returns the items with several keys, in their order, with nil for missing ones.
  public static func load(ids keys: sending some Sequence<ID>, in database: Database) async throws -> [Self?] {
    try await store(in: database).load(ids: keys)
  }

  /// Returns the metadata of an item, or nil if it has none or does not exist. The item is not read.
  public static func metadata(of key: ID, in database: Database) async throws -> Metadata? {
    try await store(in: database).metadata(of: key)
  }

  /// Returns all current items: `Book.load(..., in: database)`.
  public static func load(
    _ all: UnboundedRange, descending: Bool = false, limit: Int? = nil, in database: Database
  ) -> Rows<Self> {
    store(in: database).load(..., descending: descending, limit: limit)
  }

  /// Returns the current items whose keys are in a range: `"a"..<"b"`, `5...`, `...id`, `id..>`. A descending scan
  /// begins at its end.
  public static func load(
    _ range: some KeyBounds<ID> & Sendable, descending: Bool = false, limit: Int? = nil, in database: Database
  ) -> Rows<Self> {
    store(in: database).load(range, descending: descending, limit: limit)
  }

  /// Returns a sequence of the item with a key: its current value, and its value after each acknowledged commit that
  /// has changed, touched or removed it or its metadata. The value is nil while the item does not exist.
  ///
  /// ```swift
  /// for try await book in Book.observe(id, in: database) { show(book?.title) }
  /// ```
  ///
  /// Only the newest value is delivered, as for ``Database/observe(_:key:in:)``.
  public static func observe(_ key: ID, in database: Database) -> ObjectObservation<Self> {
    store(in: database).observe(key)
  }
}
