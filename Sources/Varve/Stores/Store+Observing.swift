/// Observing instances.
extension Store {
  /// Returns a sequence of the instance with an identifier: its current value, and its value after each acknowledged
  /// commit that has changed, touched or removed it or its metadata. The value is nil while the instance does not
  /// exist.
  ///
  /// ```swift
  /// for try await book in books.observe(id) { show(book?.title) }
  /// ```
  ///
  /// Only the newest value is delivered, as for ``Database/observe(_:key:in:)``. An instance of an older version is
  /// converted.
  public func observe(_ id: Identifier) -> ObjectObservation<Instance> {
    ObjectObservation(database.core, Result { try RowKey(id, in: collection) }) { [access] tx in try access.load(id, tx)
    }
  }

  /// Returns a sequence of the changes of the store: first a reload, and then the changed rows, as for
  /// ``Database/observe(in:)``.
  public func observe() -> CollectionObservation { database.observe(in: collection) }
}

/// Conversions between row keys and identifiers.
extension Store {
  /// Returns the row key of an identifier. Throws `.invalidKey` if it cannot be a key.
  public func rowKey(_ id: Identifier) throws -> RowKey { try RowKey(id, in: collection) }

  /// Returns the identifier of a row, as change sets and extensions provide it. Throws `.invalidArgument` for a row of
  /// another collection, and `.keyTypeDiffers` for one with keys of another type.
  public func identifier(of row: RowKey) throws -> Identifier { try access.identifier(of: row) }
}
