/// Instances as they change.
extension Store {
  /// The instance with an identifier now, and again each time that an acknowledged commit has changed, touched or
  /// removed it, or its metadata; nil as long as there is none.
  ///
  /// ```swift
  /// for try await book in books.observe(id) { show(book?.title) }
  /// ```
  ///
  /// Only the newest counts, as for ``Database/observe(_:key:in:)``. An instance of an older version comes converted.
  public func observe(_ id: Identifier) -> ObjectObservation<Instance> {
    ObjectObservation(database.core, Result { try RowKey(id, in: collection) }) { [door] tx in try door.load(id, tx) }
  }

  /// What changes in the store: at first a reload, and then which rows: ``Database/observe(in:)``.
  public func observe() -> CollectionObservation { database.observe(in: collection) }
}
