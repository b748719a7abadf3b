/// A scan over rows. It is a value, so that a copy of a scan that has not begun yields the same rows again.
protocol RowScan<Element>: Sendable {
  associatedtype Element: Sendable
  /// Returns the next row and its approximate number of bytes, or `nil` after the last.
  mutating func next() throws -> (element: Element, byteCount: Int)?
}

/// A scan that a cursor can move.
protocol SeekableScan<Element>: RowScan {
  /// Moves the scan to the first row at or after a key, or, in reverse, at or before the key. Throws `.keyTypeDiffers`.
  mutating func seek(to key: some KeyCodable, keyLimit: Int) throws
  /// Returns the number of remaining rows.
  func count() throws -> Int
}

/// The range of rows that a scan covers.
struct ScanRange: Sendable {
  private let bounds: @Sendable (CollectionInfo, _ keyLimit: Int) throws -> StorageRange

  /// Creates the range of rows with keys in a range.
  init<Key: KeyCodable>(_ range: some KeyBounds<Key> & Sendable) {
    bounds = { info, limit in try info.storageRange(range, limit: limit) }
  }

  private init(bounds: @escaping @Sendable (CollectionInfo, Int) throws -> StorageRange) { self.bounds = bounds }

  /// The range of all rows.
  static let all = ScanRange { info, _ in info.range }

  func storage(_ info: CollectionInfo, _ keyLimit: Int) throws -> StorageRange { try bounds(info, keyLimit) }
}

/// The terms of a scan: its range, direction and limit.
struct ScanTerms: Sendable {
  var range: ScanRange
  var isDescending: Bool
  var limit: Int?

  /// Throws `.invalidArgument` for a negative limit.
  func check() throws {
    if let limit, limit < 0 {
      throw DatabaseError(.invalidArgument, "the limit of a scan is \(limit); it must not be negative")
    }
  }
}

/// A scan of a collection that was never made.
struct EmptyScan<Element: Sendable>: SeekableScan {
  mutating func next() -> (element: Element, byteCount: Int)? { nil }
  mutating func seek(to key: some KeyCodable, keyLimit: Int) {}
  func count() -> Int { 0 }
}

/// A scan of the metadata of scanned rows. The metadata's family has a subset of the rows' keys, in the same order.
struct MetadataScan: Sendable {
  private var cursor: FamilyCursor
  private let isReverse: Bool
  private var ahead: (key: [UInt8], value: [UInt8])?

  init(_ cursor: FamilyCursor, isReverse: Bool) {
    self.cursor = cursor
    self.isReverse = isReverse
  }

  /// Moves the scan to a key.
  mutating func seek(to key: [UInt8]) {
    cursor.seek(to: key)
    ahead = nil
  }

  /// Returns the metadata of a row, or `nil` if there is none. Keys must be requested in the scan's order.
  mutating func value(of key: [UInt8]) throws -> [UInt8]? {
    while true {
      if ahead == nil { ahead = try cursor.next() }
      guard let ahead else { return nil }
      let order = ByteOrder.compare(ahead.key, key)
      if order == 0 { return ahead.value }
      if isReverse ? order < 0 : order > 0 { return nil }
      self.ahead = nil
    }
  }
}
