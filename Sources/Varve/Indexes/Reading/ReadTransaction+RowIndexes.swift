/// Reads rows by an index of their collection.
///
/// Rows are in the order of the index, and those with the same value in the order of their keys; with `descending`,
/// both orders are reversed. A row with several values in the range is returned once, at the first of them. Every call
/// sees the writes of the transaction.
///
/// Each method throws `.notReady` while the index is built, `.notUnique` for a unique index that was built over rows
/// with the same value, `.unknownExtension` if the database was opened without indexes of the collection,
/// `.invalidDefinition` if another index has the name, `.invalidKey`, and `.invalidArgument` for a negative limit.
/// Complexity: one seek, and for each row an entry and a read, or only an entry for a direct index.
extension ReadTransaction {
  /// Returns the first row with a value, or nil if no row has it.
  public final func row<Value: KeyCodable>(_ value: IndexValue<Value>, from index: RowIndex<Value>) throws -> Row? {
    var rows = try IndexedRows<Value>(self, RowIndexSelection(index, value.values, limit: 1))
    return try rows.next()
  }

  /// Returns the rows with some values: `tx.rows(.range("A"..<"B"), from: byArtist)`.
  public final func rows<Value: KeyCodable>(
    _ values: IndexValues<Value>, from index: RowIndex<Value>, descending: Bool = false, limit: Int? = nil
  ) throws -> IndexedRows<Value> {
    try IndexedRows(self, RowIndexSelection(index, values, descending: descending, limit: limit))
  }

  /// Returns the number of rows with some values. Complexity: O(log n) for a counted index, and otherwise O(n) in these
  /// rows; no row is read.
  public final func count<Value: KeyCodable>(
    _ values: IndexValues<Value>, from index: RowIndex<Value>
  ) throws -> Int {
    let selection = RowIndexSelection(index, values)
    if let count = try selection.countedCount(self) { return count }
    return try selection.begin(self, keysOnly: true)?.count() ?? 0
  }

  /// Returns the number of rows with some values that come before a row, or nil if the row has none of these values.
  ///
  /// Throws `.notIndexed` for an index that is not counted, and for several values of an index in which a row may have
  /// several. Complexity: one lookup, and O(log n).
  public final func offset<Value: KeyCodable>(
    of row: RowKey, in values: IndexValues<Value>, from index: RowIndex<Value>, descending: Bool = false
  ) throws -> Int? {
    try RowIndexSelection(index, values, descending: descending).offset(of: row, self)
  }

  /// Returns the rows at some offsets among those with some values, in order. Offsets that do not exist are left out.
  ///
  /// Throws `.notIndexed` for an index that is not counted, and for several values of an index in which a row may have
  /// several. Complexity: O(log n), and a read for each row.
  public final func rows<Value: KeyCodable>(
    _ values: IndexValues<Value>, from index: RowIndex<Value>, at offsets: Range<Int>, descending: Bool = false
  ) throws -> [Row] {
    try RowIndexSelection(index, values, descending: descending).rows(at: offsets, self)
  }
}
