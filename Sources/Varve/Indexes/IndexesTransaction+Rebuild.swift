extension IndexesTransaction {
  /// What is to be built again because rows collided when it was built.
  func collidingIndexes() throws -> [Int] {
    try definition.indexes.indices.filter { index in
      guard definition.indexes[index].declaration.kind.isUnique, try part(index).isReady else { return false }
      return try collisions(of: index) != nil
    }
  }

  /// Some indexes are built again.
  func forgetCollisions(of indexes: [Int]) throws {
    for index in indexes { try forgetCollisions(of: index) }
  }

  /// The rows that are in no index, in the order of their keys, and why.
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
  /// Which row it is.
  public let key: RowKey
  /// Why: it can't be decoded, or a value of it can't be a key.
  public let reason: String
}
