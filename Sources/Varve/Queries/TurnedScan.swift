/// Scans the entries of an index in the order of their values, and those with the same value in the opposite order of
/// the rows' keys.
///
/// The order of a query is that of an index in this way if the index has its last field in the other direction than
/// the rows' keys: `Index({ $0.city }, { $0.date.descending })` serves `sorted(by: \.date, descending: true)`, whose
/// ties are in descending order, too.
///
/// The entries of a value are collected until there are as many as a page has, and returned from the last one. If there
/// are more, they are read backward from the end of the value instead: one seek for each such value, and no memory.
struct TurnedScan: Sendable {
  private typealias Entry = (key: [UInt8], value: [UInt8])

  private let family: StorageFamily
  private let source: any StorageReading
  private let isReverse: Bool
  private let keysOnly: Bool
  private let wanted: Int?
  /// The ranges that remain, with the next one last.
  private var rest: [StorageRange]
  /// Reads the entries in the order of the values.
  private var cursor: FamilyCursor?
  /// The first entry of the next value.
  private var ahead: Entry?
  /// The entries of the current value that were collected, in the order of the scan. They are returned from the last.
  private var group: [Entry] = []
  /// Reads the entries of the current value in the opposite order.
  private var backward: FamilyCursor?

  /// The maximum number of entries that are collected.
  private static var groupMaximum: Int { 64 }

  /// Creates a scan of ranges, with the next one last, after an entry or from the first one.
  init(
    _ ranges: [StorageRange], in family: StorageFamily, of source: any StorageReading, isReverse: Bool, keysOnly: Bool,
    wanted: Int?, after start: [UInt8]?
  ) {
    self.family = family
    self.source = source
    self.isReverse = isReverse
    self.keysOnly = keysOnly
    self.wanted = wanted
    rest = ranges
    if let start { begin(after: start) }
  }

  /// Leaves out the values before that of an entry, and those of its entries that come before it.
  private mutating func begin(after start: [UInt8]) {
    guard let row = try? unsafe IndexEntry.rowKey(in: start.span.bytes) else { return }
    let value = Array(start[..<row.lowerBound])
    let whole = StorageRange(lower: value, upper: KeyRange.end(ofParts: value))
    let hasStart = rest.contains { range in
      !ByteOrder.precedes(start, range.lower) && (range.upper.map { ByteOrder.precedes(start, $0) } ?? true)
    }
    rest = rest.compactMap { range in
      var range = range
      if isReverse {
        if range.upper.map({ ByteOrder.precedes(value, $0) }) ?? true { range.upper = value }
      } else if let end = whole.upper, ByteOrder.precedes(range.lower, end) {
        range.lower = end
      }
      return range.isEmpty ? nil : range
    }
    guard hasStart else { return }
    var part = whole
    if isReverse { part.lower = start + [0] } else { part.upper = start }
    if !part.isEmpty { backward = open(part, isReverse: !isReverse) }
  }

  private func open(_ range: StorageRange, isReverse: Bool) -> FamilyCursor {
    FamilyCursor(range, in: family, of: source, isReverse: isReverse, keysOnly: keysOnly, wanted: wanted)
  }

  /// Calls `body` with the next entry and returns its result; nil after the last entry.
  mutating func withNext<Result>(_ body: (_ key: RawSpan, _ value: RawSpan) throws -> Result) throws -> Result? {
    while true {
      if let entry = group.popLast() { return try unsafe body(entry.key.span.bytes, entry.value.span.bytes) }
      if let result = try backward?.withNext(body) { return result }
      backward = nil
      guard try readGroup() else { return nil }
    }
  }

  /// Reads the entries of the next value. Returns false if there are none.
  private mutating func readGroup() throws -> Bool {
    guard let first = try ahead.take() ?? nextEntry() else { return false }
    let size = try unsafe IndexEntry.rowKey(in: first.key.span.bytes).lowerBound
    let value = first.key[..<size]
    group.append(first)
    while let next = try nextEntry() {
      let nextSize = try unsafe IndexEntry.rowKey(in: next.key.span.bytes).lowerBound
      guard nextSize == size, next.key.starts(with: value) else {
        ahead = next
        break
      }
      group.append(next)
      if group.count > Self.groupMaximum {
        leaveGroup(Array(value))
        return true
      }
    }
    return true
  }

  /// Reads the entries of a value from their end, because they are too many to be collected.
  private mutating func leaveGroup(_ value: [UInt8]) {
    group.removeAll(keepingCapacity: true)
    let end = KeyRange.end(ofParts: value)
    backward = open(StorageRange(lower: value, upper: end), isReverse: !isReverse)
    cursor?.seek(to: isReverse ? value : end)
  }

  private mutating func nextEntry() throws -> Entry? {
    while true {
      if let entry = try cursor?.next() { return entry }
      guard let range = rest.popLast() else { return nil }
      cursor = open(range, isReverse: isReverse)
    }
  }

  /// Returns the number of entries that remain. Must not be called after `withNext`.
  consuming func count() throws -> Int {
    var count = try backward?.count() ?? 0
    while let range = rest.popLast() { count += try open(range, isReverse: isReverse).count() }
    return count
  }
}
