public import VarveEngine

extension Engine {
  /// Returns every row of every family, read by a cursor, to compare two databases or a database with a model.
  public func content() throws -> [String: [ModelDatabase.Row]] {
    var content: [String: [ModelDatabase.Row]] = [:]
    for family in families {
      var rows: [ModelDatabase.Row] = []
      var cursor = try cursor(in: family)
      try cursor.seekToFirst()
      while cursor.isValid {
        rows.append(ModelDatabase.Row(cursor.keyBytes, cursor.valueBytes))
        try cursor.next()
      }
      content[family.name] = rows
    }
    return content
  }
}
