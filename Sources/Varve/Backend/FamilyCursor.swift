/// Iterates over the rows of a range of one family, either of a snapshot or of a transaction's view.
///
/// Rows are read in pages. The first page is small, because many iterations end early; later pages grow to 64 KiB.
package struct FamilyCursor: Sendable {
  private let source: any StorageReading
  private let family: StorageFamily
  private let isReverse: Bool
  /// Whether values are left out.
  private let keysOnly: Bool
  /// The whole range of the iteration.
  private let range: StorageRange
  /// The part of the range that was not requested yet.
  private var rest: StorageRange
  private var page = StoragePage()
  private var index = 0
  private var pageSize = Self.pageSizeMinimum
  private var pageRows = Self.pageRowsMaximum

  static let pageSizeMinimum = 4 << 10
  static let pageSizeMaximum = 64 << 10
  static let pageRowsMaximum = 256
  /// The number of rows of the page that is read after `skip`.
  private static let skippedPageRows = 2

  /// Creates a cursor. `wanted` is the maximum number of rows that the first page needs, or nil if that is not known.
  package init(
    _ range: StorageRange, in family: StorageFamily, of source: any StorageReading, isReverse: Bool,
    keysOnly: Bool = false, wanted: Int? = nil
  ) {
    self.keysOnly = keysOnly
    if let wanted { pageRows = min(max(wanted, 1), pageRows) }
    self.source = source
    self.family = family
    self.isReverse = isReverse
    self.range = range
    rest = range
    if range.isEmpty { page.isLast = true }
  }

  /// Returns the next row, or nil after the last.
  package mutating func next() throws -> (key: [UInt8], value: [UInt8])? {
    guard try fillPage() else { return nil }
    defer { index += 1 }
    return (page.key(index), page.value(index))
  }

  /// Calls `body` with the next row, whose key and value it may not keep, and returns its result; nil after the last
  /// row.
  mutating func withNext<Result>(_ body: (_ key: RawSpan, _ value: RawSpan) throws -> Result) throws -> Result? {
    guard try fillPage() else { return nil }
    defer { index += 1 }
    return try page.withEntry(index, body)
  }

  /// Returns the key of the next row, or nil after the last.
  package mutating func nextKey() throws -> [UInt8]? {
    guard try fillPage() else { return nil }
    defer { index += 1 }
    return page.key(index)
  }

  /// Moves to a key. The next row is the first one at or after it, or in reverse the last one at or before it.
  mutating func seek(to key: [UInt8]) {
    rest = range
    if isReverse {
      let end = key + [0]
      if rest.upper.map({ ByteOrder.precedes(end, $0) }) ?? true { rest.upper = end }
    } else if ByteOrder.precedes(rest.lower, key) {
      rest.lower = key
    }
    page = StoragePage()
    page.isLast = rest.isEmpty
    index = 0
    // The caller may want only the next row, so the next page is small again.
    pageSize = Self.pageSizeMinimum
  }

  /// Moves to a key that is not before the next row, or in reverse not after it.
  ///
  /// If the current page contains the key, no page is read. Otherwise the next page has few rows, because the next call
  /// may skip again.
  package mutating func skip(to key: [UInt8]) {
    while index < page.count {
      let order = page.withEntry(index) { next, _ in unsafe ByteOrder.compare(next, key.span.bytes) }
      if isReverse ? order <= 0 : order >= 0 { return }
      index += 1
    }
    if page.isLast { return }
    seek(to: key)
    pageRows = Self.skippedPageRows
  }

  /// Returns the number of rows that remain.
  package consuming func count() throws -> Int {
    var count = 0
    while try fillPage() {
      count += page.count - index
      index = page.count
    }
    return count
  }

  /// Returns whether there is another row, and reads the next page at the end of the current one.
  private mutating func fillPage() throws -> Bool {
    if index < page.count { return true }
    if page.isLast { return false }
    page = try source.page(
      rest, in: family, isReverse: isReverse, keysOnly: keysOnly, byteLimit: pageSize, rowLimit: pageRows)
    index = 0
    pageSize = min(pageSize * 4, Self.pageSizeMaximum)
    pageRows = min(pageRows * 4, Self.pageRowsMaximum)
    guard page.count > 0 else { return false }
    let last = page.key(page.count - 1)
    if isReverse { rest.upper = last } else { rest.lower = last + [0] }
    return true
  }
}
