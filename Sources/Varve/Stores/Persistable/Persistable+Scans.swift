/// Loads items in the order of their keys.
extension Persistable {
  // MARK: - Inside a transaction

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

  /// Returns all keys in order. Nothing is decoded, and the values of the rows are not read. Throws `.invalidArgument`
  /// for a negative limit.
  public static func ids(
    descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<ID> {
    StoreCursor(tx, try access(tx).identifierScan(ScanTerms(range: .all, isDescending: descending, limit: limit), tx))
  }

  /// Returns the keys of a range in order. Throws `.invalidArgument` for a negative limit.
  public static func ids(
    _ range: some KeyBounds<ID> & Sendable, descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<ID> {
    let terms = ScanTerms(range: ScanRange(range), isDescending: descending, limit: limit)
    return StoreCursor(tx, try access(tx).identifierScan(terms, tx))
  }

  // MARK: - In a transaction of its own

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

  /// Returns all current keys in order. Nothing is decoded, and the values of the rows are not read.
  public static func ids(
    descending: Bool = false, limit: Int? = nil, in database: Database
  ) -> Rows<ID> {
    store(in: database).ids(descending: descending, limit: limit)
  }

  /// Returns the current keys of a range in order.
  public static func ids(
    _ range: some KeyBounds<ID> & Sendable, descending: Bool = false, limit: Int? = nil, in database: Database
  ) -> Rows<ID> {
    store(in: database).ids(range, descending: descending, limit: limit)
  }
}

/// Observes items.
extension Persistable {
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

  /// Returns a sequence of the changes of the items: first a reload, and then the changed rows, as for
  /// ``Database/observe(in:)``.
  public static func observe(in database: Database) -> CollectionObservation { store(in: database).observe() }
}
