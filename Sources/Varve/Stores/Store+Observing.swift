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
    ObjectObservation(database.core, Result { try RowKey(id, in: collection) }) { [access] tx in try access.load(id, tx)
    }
  }

  /// What changes in the store: at first a reload, and then which rows: ``Database/observe(in:)``.
  public func observe() -> CollectionObservation { database.observe(in: collection) }
}

/// Rows and identifiers.
extension Store {
  /// The row of an identifier. Throws `.invalidKey` where it can't be a key.
  public func rowKey(_ id: Identifier) throws -> RowKey { try RowKey(id, in: collection) }

  /// The identifier of a row, which change sets and extensions give. Throws `.invalidArgument` for a row of another
  /// collection, and `.keyTypeDiffers` for one with keys of another type.
  public func identifier(of row: RowKey) throws -> Identifier { try access.identifier(of: row) }
}
