/// Walks rows in the order of their keys: of a collection, a range of it, or of all collections by name.
///
/// ```swift
/// var rows = try tx.rows(in: "books")
/// while let row = try rows.next() {
///   if let key: String = try? row.key(), key.hasPrefix("a") { print(try row.object(as: Book.self)) }
/// }
/// ```
///
/// Nothing of a row is decoded until it is asked for; its bytes are read with its key. The walk shows
/// the rows as they were when it was begun, whatever the transaction writes meanwhile. It belongs to the
/// thread and the time of its transaction; one that was made inside a savepoint, or a nested `write`, which was then
/// undone throws `.cursorEnded`.
public struct RowCursor {
  private let transaction: ReadTransaction
  /// The walks that are still to come, the next one last.
  private var walks: [Walk]

  /// A walk over rows of one collection.
  struct Walk {
    let info: CollectionInfo
    var cursor: FamilyCursor
    /// Their metadata when the cursor was made, if not those of the snapshot.
    let metadata: (any StorageReading)?
  }

  init(_ transaction: ReadTransaction, _ walks: [Walk]) {
    self.transaction = transaction
    self.walks = walks.reversed()
  }

  /// The next row; nil behind the last. Throws `.transactionEnded`, `.corruption`, `.storage`.
  public mutating func next() throws -> Row? {
    try transaction.check()
    while !walks.isEmpty {
      let last = walks.count - 1
      if let (key, value) = try walks[last].cursor.next() {
        let stored = try transaction.stored(key, value, walks[last].info, walks[last].metadata)
        return Row(stored, in: transaction)
      }
      walks.removeLast()
    }
    return nil
  }

  /// Calls `body` with each row that is left, until it throws.
  public mutating func forEach(_ body: (Row) throws -> Void) throws {
    while let row = try next() { try body(row) }
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

extension Array where Element == Row {
  /// All rows that are left of a walk.
  public init(_ cursor: consuming RowCursor) throws { self = try cursor.compactMap(\.self) }
}
