/// Rows by a `RowKey`, which change sets, hooks and extensions give: the caller that has one need not know the type of the key.
extension ReadTransaction {
  /// A row, whose object and metadata are decoded when they are asked for; nil where there is none.
  public final func row(_ row: RowKey) throws -> Row? {
    guard let info = try info(row.collection) else { return nil }
    return try self.row(row.storageKey(in: info), info)
  }

  /// Whether a row is there. Nothing is decoded.
  public final func contains(_ row: RowKey) throws -> Bool {
    guard let info = try info(row.collection) else { return false }
    return try header(row.storageKey(in: info), info) != nil
  }
}

extension WriteTransaction {
  /// Removes a row. Returns false where there is none.
  @discardableResult
  public func remove(_ row: RowKey) throws -> Bool {
    guard let info = try info(row.collection) else { return false }
    return try remove([row.storageKey(in: info)], info) == 1
  }

  /// Tells extensions and observers that something about a row has changed which the row doesn't say. Nothing is
  /// written. Returns false where there is no row.
  @discardableResult
  public func touchRow(_ row: RowKey) throws -> Bool {
    guard let info = try info(row.collection) else { return false }
    return try touch(row.storageKey(in: info), info, .rowTouched)
  }
}
