/// Loads instances in the order of their identifiers.
extension Store {
  // MARK: - Inside a transaction

  /// Returns all instances: `store.load(..., in: tx)`. Throws `.invalidArgument` for a negative limit.
  public func load(
    _ all: UnboundedRange, descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<Instance> {
    try access.cursor(ScanTerms(range: .all, isDescending: descending, limit: limit), tx)
  }

  /// Returns the instances whose identifiers are in a range: `"a"..<"b"`, `5...`, `...id`, `id..>`. A descending scan
  /// begins at its end. Throws `.invalidArgument` for a negative limit.
  public func load(
    _ range: some KeyBounds<Identifier> & Sendable, descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<Instance> {
    try access.cursor(ScanTerms(range: ScanRange(range), isDescending: descending, limit: limit), tx)
  }

  /// Returns all identifiers in order: `store.ids(in: tx)`. Nothing is decoded, and the values of the rows are
  /// not read. Throws `.invalidArgument` for a negative limit.
  public func ids(
    descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<Identifier> {
    StoreCursor(tx, try access.identifierScan(ScanTerms(range: .all, isDescending: descending, limit: limit), tx))
  }

  /// Returns the identifiers of a range in order. Throws `.invalidArgument` for a negative limit.
  public func ids(
    _ range: some KeyBounds<Identifier> & Sendable, descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<Identifier> {
    let terms = ScanTerms(range: ScanRange(range), isDescending: descending, limit: limit)
    return StoreCursor(tx, try access.identifierScan(terms, tx))
  }

  // MARK: - In a transaction of its own

  /// Returns all current instances: `store.load(...)`.
  public func load(_ all: UnboundedRange, descending: Bool = false, limit: Int? = nil) -> Rows<Instance> {
    rows(ScanTerms(range: .all, isDescending: descending, limit: limit))
  }

  /// Returns the current instances whose identifiers are in a range: `"a"..<"b"`, `5...`, `...id`, `id..>`. A
  /// descending scan begins at its end.
  public func load(
    _ range: some KeyBounds<Identifier> & Sendable, descending: Bool = false, limit: Int? = nil
  ) -> Rows<Instance> {
    rows(ScanTerms(range: ScanRange(range), isDescending: descending, limit: limit))
  }

  /// Returns all current identifiers in order. Nothing is decoded, and the values of the rows are not read.
  public func ids(descending: Bool = false, limit: Int? = nil) -> Rows<Identifier> {
    ids(ScanTerms(range: .all, isDescending: descending, limit: limit))
  }

  /// Returns the current identifiers of a range in order.
  public func ids(
    _ range: some KeyBounds<Identifier> & Sendable, descending: Bool = false, limit: Int? = nil
  ) -> Rows<Identifier> {
    ids(ScanTerms(range: ScanRange(range), isDescending: descending, limit: limit))
  }

  private func rows(_ terms: ScanTerms) -> Rows<Instance> {
    Rows(RowSource(database.core) { [access] tx in try access.scan(terms, tx) })
  }

  private func ids(_ terms: ScanTerms) -> Rows<Identifier> {
    Rows(RowSource(database.core) { [access] tx in try access.identifierScan(terms, tx) })
  }
}
