/// Iterates the rows of a range of one family, of a snapshot or of what a transaction sees at one moment.
///
/// Rows come in pages: the first small, because many iterations end soon, then up to 64 KiB each.
package struct FamilyCursor: Sendable {
  private let source: any StorageReading
  private let family: StorageFamily
  private let isReverse: Bool
  /// Values are left out.
  private let keysOnly: Bool
  /// All of it.
  private let range: StorageRange
  /// What of the range was not asked for yet.
  private var rest: StorageRange
  private var page = StoragePage()
  private var index = 0
  private var pageSize = Self.pageSizeMinimum
  private var pageRows = Self.pageRowsMaximum

  static let pageSizeMinimum = 4 << 10
  static let pageSizeMaximum = 64 << 10
  static let pageRowsMaximum = 256
  /// After `skip`.
  private static let skippedPageRows = 2

  /// `wanted`: how many rows the first page needs at most; nil where that is not known.
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

  /// The next row; nil after the last.
  package mutating func next() throws -> (key: [UInt8], value: [UInt8])? {
    guard try fillPage() else { return nil }
    defer { index += 1 }
    return (page.key(index), page.value(index))
  }

  /// What `body` makes of the next row, whose key and value it may not keep; nil after the last.
  mutating func withNext<Result>(_ body: (_ key: RawSpan, _ value: RawSpan) throws -> Result) throws -> Result? {
    guard try fillPage() else { return nil }
    defer { index += 1 }
    return try page.withEntry(index, body)
  }

  /// The key of the next row; nil after the last.
  package mutating func nextKey() throws -> [UInt8]? {
    guard try fillPage() else { return nil }
    defer { index += 1 }
    return page.key(index)
  }

  /// Continues at a key: with the first row at it or after it, in reverse with the last row at it or before it.
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
    // The next row alone may be wanted.
    pageSize = Self.pageSizeMinimum
  }

  /// Continues at a key that is not before the next row, or in reverse not after it. Where the page at hand has it, nothing is
  /// read; otherwise few rows are, because the next call may skip again.
  mutating func skip(to key: [UInt8]) {
    while index < page.count {
      let order = page.withEntry(index) { next, _ in unsafe ByteOrder.compare(next, key.span.bytes) }
      if isReverse ? order <= 0 : order >= 0 { return }
      index += 1
    }
    if page.isLast { return }
    seek(to: key)
    pageRows = Self.skippedPageRows
  }

  /// How many rows are left.
  package consuming func count() throws -> Int {
    var count = 0
    while try fillPage() {
      count += page.count - index
      index = page.count
    }
    return count
  }

  /// Whether there is a row. Asks for more at the end of a page.
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
