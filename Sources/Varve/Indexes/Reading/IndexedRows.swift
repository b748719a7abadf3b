/// The rows of an index of their collection (``RowIndex``), in the order of their values.
///
/// ```swift
/// var rows = try tx.rows(.value("Nina Simone"), from: byArtist)
/// while let row = try rows.next() { print(try row.key(as: String.self)) }
/// ```
///
/// A row is decoded only on request. The iteration shows the rows as they were at its beginning, whatever the
/// transaction writes meanwhile. It may be used only on the thread, and until the end, of its transaction. An iteration
/// that began inside a savepoint, or a nested `write`, which was then rolled back throws `.cursorEnded`.
public struct IndexedRows<Value: KeyCodable> {
  private let transaction: ReadTransaction
  /// The scan, or nil if there are no rows.
  private var scan: IndexedRowScan?
  private let metadata: (any StorageReading)?
  private let isDescending: Bool

  init(_ transaction: ReadTransaction, _ selection: RowIndexSelection) throws {
    self.transaction = transaction
    isDescending = selection.isDescending
    scan = try selection.begin(transaction)
    metadata = scan.map { transaction.view(of: $0.info.metadata) }
  }

  /// Returns the next row, or nil after the last. Throws `.transactionEnded`, `.corruption`, `.storage`.
  public mutating func next() throws -> Row? {
    try transaction.check()
    guard let (key, bytes) = try scan?.next(), let info = scan?.info else { return nil }
    return Row(try transaction.stored(key, bytes, info, metadata), in: transaction)
  }

  /// Moves to the first row with the value or a later one, or if the rows are descending, with the value or an earlier
  /// one. Rows that were returned can be returned again, unless a row may have several values.
  public mutating func seek(to value: Value) throws {
    try transaction.check()
    let bytes = try value.encoded()
    scan?.seek(to: isDescending ? KeyRange.end(ofParts: bytes) : bytes)
  }

  /// Returns the next row, or nil if there is none. The cursor itself stays where it is.
  public consuming func first() throws -> Row? { try next() }

  /// Calls `body` with each remaining row in order, until it throws.
  public mutating func forEach(_ body: (Row) throws -> Void) throws {
    while let row = try next() { try body(row) }
  }

  /// Returns the number of rows that remain. Complexity: O(n) in these; no row is read.
  public consuming func count() throws -> Int {
    try transaction.check()
    return try scan?.count() ?? 0
  }

  /// Returns the results of `transform` for the remaining rows, without those that are nil.
  public mutating func compactMap<Result>(_ transform: (Row) throws -> Result?) throws -> [Result] {
    var results: [Result] = []
    while let row = try next() {
      if let result = try transform(row) { results.append(result) }
    }
    return results
  }
}

@available(*, unavailable)
extension IndexedRows: Sendable {}

extension Array where Element == Row {
  /// Creates an array of all remaining rows of an iteration.
  public init<Value: KeyCodable>(_ rows: consuming IndexedRows<Value>) throws {
    self = try rows.compactMap(\.self)
  }
}
