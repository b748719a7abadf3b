/// Queries as their results change.
extension StoreQuery {
  /// The result of the query and how it changes: at first a reload with all identifiers, and then differences, each by the
  /// identifiers of the instances that came, went and changed.
  ///
  /// ```swift
  /// for try await change in books.query.filter { $0.year >= 2000 }.changes() {
  ///   if change.isReload { shown = Set(change.ids) }
  ///   shown.subtract(change.removed)
  ///   shown.formUnion(change.inserted)
  /// }
  /// ```
  ///
  /// Commits while the consumer is busy become one difference between what it has seen and the newest. A commit is compared
  /// with the query by the rows that it changes, on a thread that commits nothing: a row concerns it that is in the result, or
  /// fulfils the condition. Rows without an order are reported as they are. A result with an order and a limit of up to 10,000
  /// is a window in memory, which the changed rows are put into and taken from; where some have left it, it is filled by one
  /// seek after its last instance. Positions are reported up to a limit of 10,000. Of any other query with a limit
  /// the keys of the result are read again when a row concerns it. The keys of the result are kept in memory.
  ///
  /// What can't be read ends the iteration, as for ``fetch(in:)``; but while the index that serves the query is being built,
  /// the result is read from all rows. It ends when the database is closed.
  public func changes() -> QueryObservation<Format> { QueryObservation(self) }

  /// The instances now, and again each time that a commit may have changed them: for results that are small, or have a limit.
  public func observe() -> ReadObservation<[Format.Instance]> {
    observation(.instances, isSame: { _, _ in false }) { try $0.fetch(in: $1) }
  }

  /// How many instances there are now, and again when it is another number.
  public func observeCount() -> ReadObservation<Int> {
    observation(.count, isSame: ==) { try $0.count(in: $1) }
  }

  /// Whether there is an instance now, and again when that changes.
  public func observeExists() -> ReadObservation<Bool> {
    observation(.exists, isSame: ==) { try $0.exists(in: $1) }
  }

  /// The identifiers now, and again when they are others or in another order.
  public func observeIDs() -> ReadObservation<[Format.Identifier]> {
    observation(.ids, isSame: ==) { try $0.ids(in: $1) }
  }

  /// A field of each instance now, and again when one is another.
  public func observeValues<Value: KeyCodable>(
    of path: any KeyPath<Format.Instance, Value> & Sendable
  ) -> ReadObservation<[Value]> {
    observation(.values(FieldPath(path: path)), isSame: ==) { try $0.values(of: path, in: $1) }
  }

  /// Observers of equal queries have one read in common.
  fileprivate func observation<Value: Sendable>(
    _ kind: ObservedQuery<Format>.Kind, isSame: @escaping @Sendable (Value, Value) -> Bool,
    _ read: @escaping @Sendable (StoreQuery, ReadTransaction) throws -> Value
  ) -> ReadObservation<Value> {
    ReadObservation(
      store.database.core, sharedBy: ObservedQuery(query: self, kind: kind), isSame: isSame
    ) { tx in try whileBuilt { try read($0, tx) } }
  }

  /// What `read` makes of the query for an observer, who may begin when the program does, and lives on while an index is
  /// built again: what the index does not answer yet is read from the rows.
  func whileBuilt<Result>(_ read: (StoreQuery) throws -> Result) throws -> Result {
    do { return try read(self) } catch let error as DatabaseError where error.code == .notReady {
      return try read(scan())
    }
  }
}

/// What is observed of a query.
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
