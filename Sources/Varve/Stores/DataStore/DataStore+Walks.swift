public import Foundation

/// Walking plain bytes in the order of their keys, and their keys alone.
extension DataStore {
  // MARK: - Inside of a transaction

  /// The bytes of all keys, in the order of these. Throws `.invalidArgument` for a negative limit.
  public func load(
    _ all: UnboundedRange, descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<Data> {
    try door.cursor(WalkTerms(range: .all, isDescending: descending, limit: limit), tx)
  }

  /// The bytes of a range of keys, in the order of these. Throws `.invalidArgument` for a negative limit.
  public func load(
    _ range: some KeyBounds<Key> & Sendable, descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<Data> {
    try door.cursor(WalkTerms(range: WalkRange(range), isDescending: descending, limit: limit), tx)
  }

  /// All keys, in order. The bytes behind them are not read. Throws `.invalidArgument` for a negative limit.
  public func keys(
    descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<Key> {
    StoreCursor(tx, try door.identifierWalk(WalkTerms(range: .all, isDescending: descending, limit: limit), tx))
  }

  /// The keys of a range, in order. Throws `.invalidArgument` for a negative limit.
  public func keys(
    _ range: some KeyBounds<Key> & Sendable, descending: Bool = false, limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<Key> {
    let terms = WalkTerms(range: WalkRange(range), isDescending: descending, limit: limit)
    return StoreCursor(tx, try door.identifierWalk(terms, tx))
  }

  // MARK: - By itself

  /// The bytes of all keys as they are now, in the order of the keys.
  public func load(_ all: UnboundedRange, descending: Bool = false, limit: Int? = nil) -> Rows<Data> {
    rows(WalkTerms(range: .all, isDescending: descending, limit: limit))
  }

  /// The bytes of a range of keys as they are now, in the order of the keys.
  public func load(
    _ range: some KeyBounds<Key> & Sendable, descending: Bool = false, limit: Int? = nil
  ) -> Rows<Data> {
    rows(WalkTerms(range: WalkRange(range), isDescending: descending, limit: limit))
  }

  /// All keys as they are now, in order. The bytes behind them are not read.
  public func keys(descending: Bool = false, limit: Int? = nil) -> Rows<Key> {
    keys(WalkTerms(range: .all, isDescending: descending, limit: limit))
  }

  /// The keys of a range as they are now, in order.
  public func keys(
    _ range: some KeyBounds<Key> & Sendable, descending: Bool = false, limit: Int? = nil
  ) -> Rows<Key> {
    keys(WalkTerms(range: WalkRange(range), isDescending: descending, limit: limit))
  }

  private func rows(_ terms: WalkTerms) -> Rows<Data> {
    Rows(RowSource(database.core) { [door] tx in try door.walk(terms, tx) })
  }

  private func keys(_ terms: WalkTerms) -> Rows<Key> {
    Rows(RowSource(database.core) { [door] tx in try door.identifierWalk(terms, tx) })
  }
}

/// Bytes as they change.
extension DataStore {
  /// The bytes of a key now, and again each time that an acknowledged commit has changed, touched or removed them, or
  /// their metadata; nil as long as there are none. Only the newest counts, as for ``Database/observe(_:key:in:)``.
  public func observe(_ key: Key) -> ObjectObservation<Data> {
    ObjectObservation(database.core, Result { try RowKey(key, in: name) }) { [door] tx in try door.load(key, tx) }
  }

  /// What changes in the store: at first a reload, and then which rows: ``Database/observe(in:)``.
  public func observe() -> CollectionObservation { database.observe(in: name) }
}
