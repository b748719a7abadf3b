/// Observing the results of queries.
extension StoreQuery {
  /// Returns a sequence of the result of the query and its changes: first a reload with all identifiers, and then
  /// differences, each as the identifiers of the instances that were inserted, removed and updated.
  ///
  /// ```swift
  /// for try await change in books.query.filter { $0.year >= 2000 }.changes() {
  ///   if change.isReload { shown = Set(change.ids) }
  ///   shown.subtract(change.removed)
  ///   shown.formUnion(change.inserted)
  /// }
  /// ```
  ///
  /// Commits that happen while the consumer is busy are merged into one difference between what it has seen and the
  /// newest result. A commit is compared with the query by the rows that it changes, on a thread that commits nothing:
  /// a row is relevant if it is in the result, or fulfills the condition. For a query without an order and a limit, the
  /// relevant rows are reported directly.
  ///
  /// A result with an order and a limit of up to 10,000 is a window in memory, which is updated from the changed rows;
  /// if entries have left it, it is refilled by one seek after its last instance. Positions are reported up to a limit
  /// of 10,000. For any other query with a limit, the keys of the result are read again when a row is relevant. The
  /// keys of the result are kept in memory.
  ///
  /// An error while reading ends the iteration, as for ``fetch(in:)``; but while the index that serves the query is
  /// being built, the result is read from all rows. The error of one row that can't be decoded is thrown, and does not
  /// end the iterator: see *Observation*. The iteration ends when the database is closed.
  public func changes() -> QueryObservation<Format> { QueryObservation(self) }

  /// Returns a sequence of the current instances, and of those after each commit that may have changed them. Use it for
  /// results that are small or have a limit.
  public func observe() -> ReadObservation<[Format.Instance]> {
    observation(.instances, isSame: { _, _ in false }) { try $0.fetch(in: $1) }
  }

  /// Returns a sequence of the number of instances: the current one, and each different one after that.
  public func observeCount() -> ReadObservation<Int> {
    observation(.count, isSame: ==) { try $0.count(in: $1) }
  }

  /// Returns a sequence that reports whether there is an instance: the current state, and each change of it.
  public func observeExists() -> ReadObservation<Bool> {
    observation(.exists, isSame: ==) { try $0.exists(in: $1) }
  }

  /// Returns a sequence of the identifiers: the current ones, and the new ones each time they or their order change.
  public func observeIDs() -> ReadObservation<[Format.Identifier]> {
    observation(.ids, isSame: ==) { try $0.ids(in: $1) }
  }

  /// Returns a sequence of a field of all instances: the current values, and the new ones each time one changes.
  public func observeValues<Value: KeyCodable>(
    of path: any KeyPath<Format.Instance, Value> & Sendable
  ) -> ReadObservation<[Value]> {
    observation(.values(FieldPath(path: path)), isSame: ==) { try $0.values(of: path, in: $1) }
  }

  /// Creates an observation. Observers of equal queries share one read.
  fileprivate func observation<Value: Sendable>(
    _ kind: ObservedQuery<Format>.Kind, isSame: @escaping @Sendable (Value, Value) -> Bool,
    _ read: @escaping @Sendable (StoreQuery, ReadTransaction) throws -> Value
  ) -> ReadObservation<Value> {
    ReadObservation(
      store.database.core, sharedBy: ObservedQuery(query: self, kind: kind), isSame: isSame
    ) { tx in try whileBuilt { try read($0, tx) } }
  }

  /// Returns the result of `read` for an observer, which may begin when the program starts, and continues while an
  /// index is built again. While the index is not ready, the query reads all rows.
  func whileBuilt<Result>(_ read: (StoreQuery) throws -> Result) throws -> Result {
    do { return try read(self) } catch let error as DatabaseError where error.code == .notReady {
      return try read(scan())
    }
  }
}

/// The aspect of a query that is observed.
private struct ObservedQuery<Format: StoreFormat>: Hashable, Sendable {
  enum Kind: Hashable, Sendable {
    case instances
    case count
    case exists
    case ids
    case values(FieldPath)
  }

  let query: StoreQuery<Format>
  let kind: Kind
}
