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
    ObjectObservation(database.core, Result { try RowKey(key, in: collection) }) { tx in
      try read(from: tx).byKey(key)
    }
  }

  /// What changes among the items: at first a reload, and then which rows: ``Database/observe(in:)``.
  public static func observe(in database: Database) -> CollectionObservation { database.observe(in: collection) }
}
