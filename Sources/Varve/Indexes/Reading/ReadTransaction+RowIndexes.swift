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
  public final func row<Value: KeyCodable>(with value: Value, from index: RowIndex<Value>) throws -> Row? {
    var rows = try IndexedRows<Value>(self, RowIndexSelection(value: value, index, limit: 1))
    return try rows.next()
  }

  /// Returns the rows with a value.
  public final func rows<Value: KeyCodable>(
    with value: Value, from index: RowIndex<Value>, descending: Bool = false, limit: Int? = nil
  ) throws -> IndexedRows<Value> {
    try IndexedRows(self, RowIndexSelection(value: value, index, descending: descending, limit: limit))
  }

  /// Returns the rows whose values are in a range: `tx.rows("A"..<"B", from: byArtist)`.
  public final func rows<Value: KeyCodable>(
    _ range: some KeyBounds<Value>, from index: RowIndex<Value>, descending: Bool = false, limit: Int? = nil
  ) throws -> IndexedRows<Value> {
    try IndexedRows(self, RowIndexSelection(index, range, descending: descending, limit: limit))
  }

  /// Returns all rows of the index: `tx.rows(..., from: byArtist)`.
  public final func rows<Value: KeyCodable>(
    _ all: UnboundedRange, from index: RowIndex<Value>, descending: Bool = false, limit: Int? = nil
  ) throws -> IndexedRows<Value> {
    try IndexedRows(self, RowIndexSelection(index, nil, descending: descending, limit: limit))
  }

  /// Returns the rows whose compound values begin with a value.
  public final func rows<First: KeyCodable, each Other: KeyCodable>(
    beginningWith first: First, from index: RowIndex<Compound<First, repeat each Other>>, descending: Bool = false,
    limit: Int? = nil
  ) throws -> IndexedRows<Compound<First, repeat each Other>> {
    try IndexedRows(self, RowIndexSelection(value: first, index, descending: descending, limit: limit))
  }

  /// Returns the number of rows with a value. Complexity: O(n) in these; no row is read.
  public final func count<Value: KeyCodable>(with value: Value, from index: RowIndex<Value>) throws -> Int {
    try RowIndexSelection(value: value, index).begin(self, keysOnly: true)?.count() ?? 0
  }

  /// Returns the number of rows whose values are in a range.
  public final func count<Value: KeyCodable>(
    _ range: some KeyBounds<Value>, from index: RowIndex<Value>
  ) throws -> Int {
    try RowIndexSelection(index, range).begin(self, keysOnly: true)?.count() ?? 0
  }

  /// Returns the number of rows in the index.
  public final func count<Value: KeyCodable>(
    _ all: UnboundedRange, from index: RowIndex<Value>
  ) throws -> Int {
    try RowIndexSelection(index, nil).begin(self, keysOnly: true)?.count() ?? 0
  }
}
