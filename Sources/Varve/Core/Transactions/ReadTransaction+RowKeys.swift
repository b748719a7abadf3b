/// Access to rows by a `RowKey`, which change sets, hooks and extensions provide: the caller need not know the type of
/// the key.
extension ReadTransaction {
  /// Returns a row, whose object and metadata are decoded when they are requested, or `nil` if there is none.
  public final func row(_ row: RowKey) throws -> Row? {
    guard let info = try info(row.collection) else { return nil }
    return try self.row(row.storageKey(in: info), info)
  }

  /// Returns whether a row exists. Nothing is decoded.
  public final func contains(_ row: RowKey) throws -> Bool {
    guard let info = try info(row.collection) else { return false }
    return try header(row.storageKey(in: info), info) != nil
  }
}

extension WriteTransaction {
  /// Removes a row. Returns false if there is none.
  @discardableResult
  public func remove(_ row: RowKey) throws -> Bool {
    guard let info = try info(row.collection) else { return false }
    return try remove([row.storageKey(in: info)], info) == 1
  }

  /// Notifies extensions and observers of a change of a row that the row itself doesn't show. Nothing is written.
  /// Returns false if there is no row.
  @discardableResult
  public func touchRow(_ row: RowKey) throws -> Bool {
    guard let info = try info(row.collection) else { return false }
    return try touch(row.storageKey(in: info), info, .rowTouched)
  }
}
