/// Rows by an index of their collection (``RowIndex``), in the order of their values.
///
/// ```swift
/// var rows = try tx.rows(with: "Nina Simone", from: byArtist)
/// while let row = try rows.next() { print(try row.key(as: String.self)) }
/// ```
///
/// Nothing of a row is decoded until it is asked for. The iteration shows the rows as they were when it was begun, whatever the
/// transaction writes meanwhile. It belongs to the thread and the time of its transaction; one that was made inside a
/// savepoint, or a nested `write`, which was then undone throws `.cursorEnded`.
public struct IndexedRows<Value: KeyCodable> {
  private let transaction: ReadTransaction
  /// Nil: there are none.
  private var scan: IndexedRowScan?
  private let metadata: (any StorageReading)?
  private let isDescending: Bool

  init(_ transaction: ReadTransaction, _ look: RowIndexLook) throws {
    self.transaction = transaction
    isDescending = look.isDescending
    scan = try look.begin(transaction)
    metadata = scan.map { transaction.view(of: $0.info.metadata) }
  }

  /// The next row; nil after the last. Throws `.transactionEnded`, `.corruption`, `.storage`.
  public mutating func next() throws -> Row? {
    try transaction.check()
    guard let (key, bytes) = try scan?.next(), let info = scan?.info else { return nil }
    return Row(try transaction.stored(key, bytes, info, metadata), in: transaction)
  }

  /// Continues with the first row that has a value or a later one, or where the rows are descending, the value or an earlier
  /// one. Rows that were returned can be returned again, unless a row may have several values.
  public mutating func seek(to value: Value) throws {
    try transaction.check()
    let bytes = try value.encoded()
    scan?.seek(to: isDescending ? KeyRange.end(ofParts: bytes) : bytes)
  }

  /// Calls `body` with each row that is left, in order, until it throws.
  public mutating func forEach(_ body: (Row) throws -> Void) throws {
    while let row = try next() { try body(row) }
  }

  /// How many rows are left. Complexity: O(n) of these; no row is read.
  public consuming func count() throws -> Int {
    try transaction.check()
    return try scan?.count() ?? 0
  }

  /// What `transform` makes of each row that is left; rows of which it makes nil are left out.
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
  /// All rows that are left of an iteration.
  public init<Value: KeyCodable>(_ rows: consuming IndexedRows<Value>) throws {
    self = try rows.compactMap(\.self)
  }
}
