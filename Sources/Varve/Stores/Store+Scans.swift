/// Instances in the order of their identifiers.
extension Store {
  // MARK: - Inside of a transaction

  /// All instances: `store.load(..., in: tx)`. Throws `.invalidArgument` for a negative limit.
  public func load(
    _ all: UnboundedRange, descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<Instance> {
    try access.cursor(ScanTerms(range: .all, isDescending: descending, limit: limit), tx)
  }

  /// The instances whose identifiers are in a range: `"a"..<"b"`, `5...`, `...id`, `id..>`. Descending begins at its end. Throws
  /// `.invalidArgument` for a negative limit.
  public func load(
    _ range: some KeyBounds<Identifier> & Sendable, descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<Instance> {
    try access.cursor(ScanTerms(range: ScanRange(range), isDescending: descending, limit: limit), tx)
  }

  /// All identifiers, in order: `store.identifiers(in: tx)`. Nothing is decoded, and the rows after them are not read.
  /// Throws `.invalidArgument` for a negative limit.
  public func identifiers(
    descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<Identifier> {
    StoreCursor(tx, try access.identifierScan(ScanTerms(range: .all, isDescending: descending, limit: limit), tx))
  }

  /// The identifiers of a range, in order. Throws `.invalidArgument` for a negative limit.
  public func identifiers(
    _ range: some KeyBounds<Identifier> & Sendable, descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<Identifier> {
    let terms = ScanTerms(range: ScanRange(range), isDescending: descending, limit: limit)
    return StoreCursor(tx, try access.identifierScan(terms, tx))
  }

  // MARK: - By itself

  /// All instances as they are now: `store.load(...)`.
  public func load(_ all: UnboundedRange, descending: Bool = false, limit: Int? = nil) -> Rows<Instance> {
    rows(ScanTerms(range: .all, isDescending: descending, limit: limit))
  }

  /// The instances, as they are now, whose identifiers are in a range: `"a"..<"b"`, `5...`, `...id`, `id..>`. Descending begins
  /// at its end.
  public func load(
    _ range: some KeyBounds<Identifier> & Sendable, descending: Bool = false, limit: Int? = nil
  ) -> Rows<Instance> {
    rows(ScanTerms(range: ScanRange(range), isDescending: descending, limit: limit))
  }

  /// All identifiers as they are now, in order. Nothing is decoded, and the rows after them are not read.
  public func identifiers(descending: Bool = false, limit: Int? = nil) -> Rows<Identifier> {
    identifiers(ScanTerms(range: .all, isDescending: descending, limit: limit))
  }

  /// The identifiers of a range as they are now, in order.
  public func identifiers(
    _ range: some KeyBounds<Identifier> & Sendable, descending: Bool = false, limit: Int? = nil
  ) -> Rows<Identifier> {
    identifiers(ScanTerms(range: ScanRange(range), isDescending: descending, limit: limit))
  }

  private func rows(_ terms: ScanTerms) -> Rows<Instance> {
    Rows(RowSource(database.core) { [access] tx in try access.scan(terms, tx) })
  }

  private func identifiers(_ terms: ScanTerms) -> Rows<Identifier> {
    Rows(RowSource(database.core) { [access] tx in try access.identifierScan(terms, tx) })
  }
}
