/// Items in the order of their keys.
extension Persistable {
  // MARK: - Inside of a transaction

  /// All items: `Book.load(..., in: tx)`. Throws `.invalidArgument` for a negative limit.
  public static func load(
    _ all: UnboundedRange, descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<Self> {
    try access(tx).cursor(ScanTerms(range: .all, isDescending: descending, limit: limit), tx)
  }

  /// The items whose keys are in a range: `"a"..<"b"`, `5...`, `...id`, `id..>`. Descending begins at its end. Throws
  /// `.invalidArgument` for a negative limit.
  public static func load(
    _ range: some KeyBounds<ID> & Sendable, descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<Self> {
    try access(tx).cursor(ScanTerms(range: ScanRange(range), isDescending: descending, limit: limit), tx)
  }

  /// All keys, in order. Nothing is decoded, and the rows of these keys are not read. Throws `.invalidArgument` for a
  /// negative limit.
  public static func identifiers(
    descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<ID> {
    StoreCursor(tx, try access(tx).identifierScan(ScanTerms(range: .all, isDescending: descending, limit: limit), tx))
  }

  /// The keys of a range, in order. Throws `.invalidArgument` for a negative limit.
  public static func identifiers(
    _ range: some KeyBounds<ID> & Sendable, descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<ID> {
    let terms = ScanTerms(range: ScanRange(range), isDescending: descending, limit: limit)
    return StoreCursor(tx, try access(tx).identifierScan(terms, tx))
  }

  // MARK: - By itself

  /// All items as they are now: `Book.load(..., in: database)`.
  public static func load(
    _ all: UnboundedRange, descending: Bool = false, limit: Int? = nil, in database: Database
  ) -> Rows<Self> {
    store(in: database).load(..., descending: descending, limit: limit)
  }

  /// The items, as they are now, whose keys are in a range: `"a"..<"b"`, `5...`, `...id`, `id..>`. Descending begins at its
  /// end.
  public static func load(
    _ range: some KeyBounds<ID> & Sendable, descending: Bool = false, limit: Int? = nil, in database: Database
  ) -> Rows<Self> {
    store(in: database).load(range, descending: descending, limit: limit)
  }

  /// All keys as they are now, in order. Nothing is decoded, and the rows of these keys are not read.
  public static func identifiers(
    descending: Bool = false, limit: Int? = nil, in database: Database
  ) -> Rows<ID> {
    store(in: database).identifiers(descending: descending, limit: limit)
  }

  /// The keys of a range as they are now, in order.
  public static func identifiers(
    _ range: some KeyBounds<ID> & Sendable, descending: Bool = false, limit: Int? = nil, in database: Database
  ) -> Rows<ID> {
    store(in: database).identifiers(range, descending: descending, limit: limit)
  }
}

/// Items as they change.
extension Persistable {
  /// The item with a key now, and again each time that an acknowledged commit has changed, touched or removed it, or its
  /// metadata; nil as long as there is none.
  ///
  /// ```swift
  /// for try await book in Book.observe(id, in: database) { show(book?.title) }
  /// ```
  ///
  /// Only the newest counts, as for ``Database/observe(_:key:in:)``.
  public static func observe(_ key: ID, in database: Database) -> ObjectObservation<Self> {
    store(in: database).observe(key)
  }

  /// What changes among the items: at first a reload, and then which rows: ``Database/observe(in:)``.
  public static func observe(in database: Database) -> CollectionObservation { store(in: database).observe() }
}
