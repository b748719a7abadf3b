extension IndexesTransaction {
  /// Returns the indexes that have to be built again because rows collided when they were built.
  func collidingIndexes() throws -> [Int] {
    try definition.indexes.indices.filter { index in
      guard definition.indexes[index].declaration.kind.isUnique, try part(index).isReady else { return false }
      return try collisions(of: index) != nil
    }
  }

  /// Removes the stored collisions of indexes that are built again.
  func forgetCollisions(of indexes: [Int]) throws {
    for index in indexes { try forgetCollisions(of: index) }
  }

  /// Returns the rows that are in no index, in the order of their keys, with the reasons.
  func unindexedRows() throws -> [UnindexedRow] {
    var rows: [UnindexedRow] = []
    var cursor = try part(definition.unindexedPart).cursor()
    while let (key, reason) = try cursor.next() {
      let row = RowKey(collection: definition.collection, bytes: key)
      rows.append(UnindexedRow(key: row, reason: String(decoding: reason, as: UTF8.self)))
    }
    return rows
  }
}

/// A row that is in no index of its collection.
public struct UnindexedRow: Hashable, Sendable {
  /// The key of the row.
  public let key: RowKey
  /// The reason: the row cannot be decoded, or a value of it cannot be a key.
  public let reason: String
}
