/// A scan over rows: a value, so that a copy of one that has not begun yields the same rows again.
protocol RowScan<Element>: Sendable {
  associatedtype Element: Sendable
  /// The next row and about how many bytes it took; nil after the last.
  mutating func next() throws -> (element: Element, byteCount: Int)?
}

/// A scan that a cursor can move.
protocol SeekableScan<Element>: RowScan {
  /// Continues with the first row at a key or after it, or in reverse, at it or before it. Throws `.keyTypeDiffers`.
  mutating func seek(to key: some KeyCodable, keyLimit: Int) throws
  /// How many rows are left.
  func count() throws -> Int
}

/// The rows that a scan covers.
struct ScanRange: Sendable {
  private let bounds: @Sendable (CollectionInfo, _ keyLimit: Int) throws -> StorageRange

  /// The rows of a range of keys.
  init<Key: KeyCodable>(_ range: some KeyBounds<Key> & Sendable) {
    bounds = { info, limit in try info.storageRange(range, limit: limit) }
  }

  private init(bounds: @escaping @Sendable (CollectionInfo, Int) throws -> StorageRange) { self.bounds = bounds }

  /// All rows.
  static let all = ScanRange { info, _ in info.range }

  func storage(_ info: CollectionInfo, _ keyLimit: Int) throws -> StorageRange { try bounds(info, keyLimit) }
}

/// Which rows, in which direction, and how many of them.
struct ScanTerms: Sendable {
  var range: ScanRange
  var isDescending: Bool
  var limit: Int?

  /// Throws `.invalidArgument`.
  func check() throws {
    if let limit, limit < 0 {
      throw DatabaseError(.invalidArgument, "the limit of a scan is \(limit); it must not be negative")
    }
  }
}

/// Of a collection that was never made.
struct EmptyScan<Element: Sendable>: SeekableScan {
  mutating func next() -> (element: Element, byteCount: Int)? { nil }
  mutating func seek(to key: some KeyCodable, keyLimit: Int) {}
  func count() -> Int { 0 }
}

/// The metadata of rows that are scanned: its family has the same keys, fewer of them, in the same order.
struct MetadataScan: Sendable {
  private var cursor: FamilyCursor
  private let isReverse: Bool
  private var ahead: (key: [UInt8], value: [UInt8])?

  init(_ cursor: FamilyCursor, isReverse: Bool) {
    self.cursor = cursor
    self.isReverse = isReverse
  }

  /// Continues at a key.
  mutating func seek(to key: [UInt8]) {
    cursor.seek(to: key)
    ahead = nil
  }

  /// The metadata of a row; nil if there is none. Keys must be requested in the scan's order.
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
