/// A value as SQLite stores it; it may be of another kind in each row of a column.
enum ColumnValue: Hashable {
  case null
  case integer(Int64)
  case real(Double)
  case text(String)
  /// A text whose bytes are not UTF-8.
  case damagedText([UInt8])
  case blob([UInt8])

  /// The maximum number of characters of a text, or bytes of a blob, that errors contain.
  private static let shownMaximum = 40

  /// A description of the value for errors, such as `the text "abc"`.
  var found: String {
    switch self {
    case .null: return "NULL"
    case .integer(let value): return "the integer \(value)"
    case .real(let value): return "the number \(value)"
    case .text(let text):
      let shown = text.count > Self.shownMaximum ? "\(text.prefix(Self.shownMaximum))…" : text
      return "the text \"\(PrintableText.text(shown))\""
    case .damagedText(let bytes): return "a text that is not UTF-8, \(Self.hex(bytes))"
    case .blob(let bytes): return "\(bytes.count) bytes, \(Self.hex(bytes))"
    }
  }

  private static func hex(_ bytes: [UInt8]) -> String {
    "0x" + HexText.text(Array(bytes.prefix(shownMaximum / 2))) + (bytes.count > shownMaximum / 2 ? "…" : "")
  }
}

/// A column of a table.
struct TableColumn: Hashable {
  let name: String
  /// The type that the table declares for the column, or an empty string if it declares none.
  let declared: String
}

/// A row of a table.
struct TableRow {
  /// The row's rowid in SQLite, or the position of the row from 1 in a table without rowids.
  let number: Int64
  /// The values in the order of the columns.
  let values: [ColumnValue]
}

/// A table that is read once, from its first row to its last.
protocol TableSource {
  var columns: [TableColumn] { get }
  /// The approximate number of rows.
  var rowCount: Int { get }
  /// Returns the next row, or `nil` after the last.
  mutating func next() throws -> TableRow?
}
