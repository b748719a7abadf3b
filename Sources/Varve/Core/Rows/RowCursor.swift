/// Iterates rows in the order of their keys: of a collection, a range of it, or of all collections by name.
///
/// ```swift
/// var rows = try tx.rows(in: "books")
/// while let row = try rows.next() {
///   if let key: String = try? row.key(), key.hasPrefix("a") { print(try row.object(as: Book.self)) }
/// }
/// ```
///
/// Nothing of a row is decoded until it is requested; its bytes are read with its key. The cursor shows the rows as
/// they were when it was made, whatever the transaction writes meanwhile. It belongs to the thread and the lifetime of
/// its transaction; one that was made inside a savepoint, or a nested `write`, which was then undone throws
/// `.cursorEnded`.
public struct RowCursor {
  private let transaction: ReadTransaction
  private var scans: [Scan]
  /// The index of the current scan.
  private var index = 0

  /// A scan over rows of one collection.
  struct Scan {
    let info: CollectionInfo
    var cursor: FamilyCursor
    /// Their metadata when the cursor was made, if not those of the snapshot.
    let metadata: (any StorageReading)?
  }

  init(_ transaction: ReadTransaction, _ scans: [Scan]) {
    self.transaction = transaction
    self.scans = scans
  }

  /// The next row; nil after the last. Throws `.transactionEnded`, `.corruption`, `.storage`.
  public mutating func next() throws -> Row? {
    try transaction.check()
    while index < scans.count {
      if let (key, value) = try scans[index].cursor.next() {
        let stored = try transaction.stored(key, value, scans[index].info, scans[index].metadata)
        return Row(stored, in: transaction)
      }
      // The last one stays, for `seek`.
      guard index + 1 < scans.count else { return nil }
      index += 1
    }
    return nil
  }

  /// Continues with the first row at a key or after it, or where the cursor is descending, at a key or before it. Rows
  /// that were returned can be returned again; the cursor's range bounds where it goes.
  ///
  /// Throws `.keyTypeDiffers`, and `.invalidArgument` for a cursor over all collections, which `seek(to: RowKey)` is for.
  public mutating func seek(to key: some KeyCodable) throws {
    try transaction.check()
    guard let only = scans.first else { return }
    guard scans.count == 1 else {
      throw DatabaseError(.invalidArgument, "a cursor over all collections is sought by the key of a row")
    }
    scans[0].cursor.seek(to: try only.info.storageKey(key, limit: transaction.database.limits.keySize))
  }

  /// Continues at a row, in the same way. A cursor over all collections continues in its collection, or after it where
  /// the cursor has none of that name. Throws `.invalidArgument` for a row of another collection than the cursor's one.
  public mutating func seek(to row: RowKey) throws {
    try transaction.check()
    if scans.count == 1, scans[0].info.name != row.collection {
      throw DatabaseError(
        .invalidArgument, "the cursor is over \"\(scans[0].info.name)\"", collection: row.collection, key: row.text)
    }
    index = scans.firstIndex { $0.info.name >= row.collection } ?? scans.count
    for location in index..<scans.count {
      let info = scans[location].info
      scans[location].cursor.seek(to: info.name == row.collection ? info.prefix + row.bytes : info.range.lower)
    }
  }

  /// Calls `body` with each row that is left, in order, until it throws.
  public mutating func forEach(_ body: (Row) throws -> Void) throws {
    while let row = try next() { try body(row) }
  }

  /// How many rows are left. Complexity: O(n) of these; nothing is decoded.
  public consuming func count() throws -> Int {
    try transaction.check()
    return try scans.dropFirst(index).reduce(0) { try $0 + $1.cursor.count() }
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
  /// All remaining rows of a cursor.
  public init(_ cursor: consuming RowCursor) throws { self = try cursor.compactMap(\.self) }
}
