/// Looking for rows that can't be decoded.
extension Store {
  /// Returns the rows that this build of the program can't decode, at most `limit`, with their errors: whatever the
  /// format says of such rows (``RowFormat/undecodable``). Throws `.invalidArgument` for a negative
  /// limit. Complexity: O(n); each row is decoded.
  public func undecodableRows(limit: Int = 100, in tx: ReadTransaction) throws -> [UndecodableRow] {
    try access.undecodableRows(limit: limit, tx)
  }

  /// Returns the rows that this build of the program can't decode, at most `limit`.
  public func undecodableRows(limit: Int = 100) async throws -> [UndecodableRow] {
    try await database.read { tx in try access.undecodableRows(limit: limit, tx) }
  }
}
