/// Formats columns for people.
enum TextTable {
  /// Returns the rows as lines in which each column is as wide as its widest cell. The first row has the names of the
  /// columns.
  static func lines(_ rows: [[String]]) -> [String] {
    guard let first = rows.first else { return [] }
    let widths = first.indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    return rows.map { row in
      let padded = row.enumerated().map { column, text in
        column == row.count - 1 ? text : text + String(repeating: " ", count: widths[column] - text.count)
      }
      return padded.joined(separator: "  ")
    }
  }
}
