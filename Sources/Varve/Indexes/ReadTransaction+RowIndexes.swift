/// Rows by an index of their collection.
///
/// Values are in the order of the index, rows with one value in the order of their keys, and both from their ends where
/// `descending`. A row with several values in the range comes once, with the first of them. Every call sees what the
/// transaction has written.
///
/// Each throws `.notReady` while the index is built, `.notUnique` for a unique index that was built over rows with the same
/// value, `.unknownExtension` where the database was opened without indexes of the collection, `.invalidDefinition` where it
/// has another index by the name, `.invalidKey`, and `.invalidArgument` for a negative limit. Complexity: a seek, and for each
/// row an entry and a read; of a direct index the entry alone.
extension ReadTransaction {
  /// The first row with a value; nil where no row has it.
  public final func row<Value: KeyCodable>(with value: Value, from index: RowIndex<Value>) throws -> Row? {
    var rows = try IndexedRows<Value>(self, RowIndexLook(value: value, index, limit: 1))
    return try rows.next()
  }

  /// The rows with a value.
  public final func rows<Value: KeyCodable>(
    with value: Value, from index: RowIndex<Value>, descending: Bool = false, limit: Int? = nil
  ) throws -> IndexedRows<Value> {
    try IndexedRows(self, RowIndexLook(value: value, index, descending: descending, limit: limit))
  }

  /// The rows whose values are in a range: `tx.rows("A"..<"B", from: byArtist)`.
  public final func rows<Value: KeyCodable>(
    _ range: some KeyBounds<Value>, from index: RowIndex<Value>, descending: Bool = false, limit: Int? = nil
  ) throws -> IndexedRows<Value> {
    try IndexedRows(self, RowIndexLook(index, range, descending: descending, limit: limit))
  }

  /// All rows of the index: `tx.rows(..., from: byArtist)`.
  public final func rows<Value: KeyCodable>(
    _ all: UnboundedRange, from index: RowIndex<Value>, descending: Bool = false, limit: Int? = nil
  ) throws -> IndexedRows<Value> {
    try IndexedRows(self, RowIndexLook(index, nil, descending: descending, limit: limit))
  }

  /// The rows whose compound values begin with one.
  public final func rows<First: KeyCodable, each Other: KeyCodable>(
    beginningWith first: First, from index: RowIndex<Compound<First, repeat each Other>>, descending: Bool = false,
    limit: Int? = nil
  ) throws -> IndexedRows<Compound<First, repeat each Other>> {
    try IndexedRows(self, RowIndexLook(value: first, index, descending: descending, limit: limit))
  }

  /// How many rows have a value. Complexity: O(n) of these; no row is read.
  public final func count<Value: KeyCodable>(with value: Value, from index: RowIndex<Value>) throws -> Int {
    try RowIndexLook(value: value, index).begin(self, keysOnly: true)?.count() ?? 0
  }

  /// How many rows have values in a range.
  public final func count<Value: KeyCodable>(
    _ range: some KeyBounds<Value>, from index: RowIndex<Value>
  ) throws -> Int {
    try RowIndexLook(index, range).begin(self, keysOnly: true)?.count() ?? 0
  }

  /// How many rows are in the index.
  public final func count<Value: KeyCodable>(
    _ all: UnboundedRange, from index: RowIndex<Value>
  ) throws -> Int {
    try RowIndexLook(index, nil).begin(self, keysOnly: true)?.count() ?? 0
  }
}
