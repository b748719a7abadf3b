/// Scans the rows of index entries, in the order of the entries.
///
/// Rows are read in batches; the first ones are small, because many iterations end early. A scan is a value: a copy
/// continues at the same entry.
struct IndexedRowScan: Sendable {
  let info: CollectionInfo
  private let source: any StorageReading
  private var entries: FamilyCursor
  private let isDirect: Bool
  /// The keys of the rows that were returned, if a row may have several entries.
  private var seen: Set<[UInt8]>?
  private var remaining: Int
  /// The rows that were read and are returned from `position` on.
  private var rows: [(key: [UInt8], bytes: [UInt8])] = []
  private var position = 0
  private var batchSize = 1

  private static var batchSizeMaximum: Int { 256 }

  /// Creates a scan. `entries` have their values if the index is direct.
  init(
    _ entries: FamilyCursor, isDirect: Bool, hasSeveralValues: Bool, limit: Int?, of info: CollectionInfo,
    from source: any StorageReading
  ) {
    self.entries = entries
    self.isDirect = isDirect
    self.info = info
    self.source = source
    seen = hasSeveralValues ? [] : nil
    remaining = limit ?? .max
  }

  /// Returns the key of the next row in the collection's family and its bytes, or nil after the last.
  mutating func next() throws -> (key: [UInt8], bytes: [UInt8])? {
    guard remaining > 0 else { return nil }
    if position == rows.count {
      try readBatch()
      if rows.isEmpty { return nil }
    }
    defer { position += 1 }
    remaining -= 1
    return rows[position]
  }

  private mutating func readBatch() throws {
    rows.removeAll(keepingCapacity: true)
    position = 0
    let wanted = min(batchSize, remaining)
    batchSize = min(batchSize * 8, Self.batchSizeMaximum)
    var keys: [[UInt8]] = []
    while isDirect ? rows.count < wanted : keys.count < wanted {
      guard let (key, row) = try nextEntry() else { break }
      if isDirect { rows.append((key, row)) } else { keys.append(key) }
    }
    if keys.isEmpty { return }
    try info.read(keys, from: source) { rows.append(($0, $1)) }
  }

  /// Returns the key of the next row in the collection's family, and its content if the index has it.
  private mutating func nextEntry() throws -> (key: [UInt8], row: [UInt8])? {
    let (prefix, isDirect) = (info.prefix, isDirect)
    while true {
      let entry = try entries.withNext { key, value in
        let range = try IndexEntry.rowKey(in: key)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(prefix.count + range.count)
        bytes.append(contentsOf: prefix)
        bytes.append(key.extracting(range))
        return (key: bytes, row: isDirect ? value.copied : [])
      }
      guard let entry else { return nil }
      if seen == nil || seen?.insert(entry.key).inserted == true { return entry }
    }
  }

  /// Moves to an entry.
  mutating func seek(to entry: [UInt8]) {
    entries.seek(to: entry)
    rows = []
    position = 0
    batchSize = 1
  }

  /// Returns the number of rows that remain.
  func count() throws -> Int {
    let ahead = rows.count - position
    if seen == nil { return try min(remaining, ahead + entries.count()) }
    var copy = self
    var count = ahead
    while count < remaining, try copy.nextEntry() != nil { count += 1 }
    return min(count, remaining)
  }
}

extension CollectionInfo {
  /// Reads the rows of index entries at once, and passes them to `body`. Throws `.corruption` if one does not exist.
  func read(
    _ keys: [[UInt8]], from source: any StorageReading, _ body: ([UInt8], [UInt8]) -> Void
  ) throws {
    let snapshot = source as? any StorageSnapshot
    let rows = try snapshot?.values(of: keys, in: objects) ?? keys.map { try source.value(of: $0, in: objects) }
    for (key, row) in zip(keys, rows) {
      guard let row else { throw missingRow(key) }
      body(key, row)
    }
  }

  /// Returns the error for an index entry whose row does not exist.
  func missingRow(_ key: [UInt8]) -> DatabaseError {
    DatabaseError(
      .corruption, "an index has a row that is not there; `rebuild` makes the index from the rows",
      collection: name, key: self.key(of: key).text)
  }
}
