/// A cursor that iterates over rows in the order of their keys: of a collection, a range of it, or of all collections
/// by name.
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
    /// The source of the metadata as of the cursor's creation, if it is not the snapshot.
    let metadata: (any StorageReading)?
  }

  init(_ transaction: ReadTransaction, _ scans: [Scan]) {
    self.transaction = transaction
    self.scans = scans
  }

  /// Returns the next row, or `nil` after the last. Throws `.transactionEnded`, `.corruption`, `.storage`.
  public mutating func next() throws -> Row? {
    try transaction.check()
    while index < scans.count {
      if let (key, value) = try scans[index].cursor.next() {
        let stored = try transaction.stored(key, value, scans[index].info, scans[index].metadata)
        return Row(stored, in: transaction)
      }
      // The last scan is kept for `seek`.
      guard index + 1 < scans.count else { return nil }
      index += 1
    }
    return nil
  }

  /// Moves the cursor to the first row at or after a key, or, if the cursor is descending, at or before the key. Rows
  /// that were returned may be returned again. The cursor stays within its range.
  ///
  /// Throws `.keyTypeDiffers`, and `.invalidArgument` for a cursor over all collections; use `seek(to: RowKey)` for
  /// that.
  public mutating func seek(to key: some KeyCodable) throws {
    try transaction.check()
    guard let only = scans.first else { return }
    guard scans.count == 1 else {
      throw DatabaseError(.invalidArgument, "a cursor over all collections is sought by the key of a row")
    }
    scans[0].cursor.seek(to: try only.info.storageKey(key, limit: transaction.database.limits.keySize))
  }

  /// Moves the cursor to a row likewise. A cursor over all collections continues in the row's collection, or after it
  /// if the cursor has none of that name. Throws `.invalidArgument` if the cursor is over another collection than the
  /// row's.
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

  /// Returns the next row, or nil if there is none. The cursor itself stays where it is.
  public consuming func first() throws -> Row? { try next() }

  /// Calls `body` with each remaining row, in order, until it throws.
  public mutating func forEach(_ body: (Row) throws -> Void) throws {
    while let row = try next() { try body(row) }
  }

  /// Returns the number of remaining rows. Complexity: O(n) of these; nothing is decoded.
  public consuming func count() throws -> Int {
    try transaction.check()
    return try scans.dropFirst(index).reduce(0) { try $0 + $1.cursor.count() }
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

extension Array where Element == Row {
  /// Creates an array of all remaining rows of a cursor.
  public init(_ cursor: consuming RowCursor) throws { self = try cursor.compactMap(\.self) }
}
