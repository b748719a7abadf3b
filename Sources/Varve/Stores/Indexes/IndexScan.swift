/// The rows of entries of an index as instances, in the order of the entries.
///
/// Rows are read many at once, the first ones few at once, because many iterations end soon.
struct IndexScan<Format: StoreFormat>: SeekableScan {
  private let access: RowAccess<Format>
  private let info: CollectionInfo
  private let source: any StorageReading
  private var entries: FamilyCursor
  private let isDirect: Bool
  private let isDescending: Bool
  /// The rows that have come, where a row may have several entries.
  private var seen: Set<[UInt8]>?
  private var remaining: Int
  /// Rows that were read, from `position` on.
  private var rows: [(key: [UInt8], bytes: [UInt8])] = []
  private var position = 0
  private var batchSize = 1

  private static var batchSizeMaximum: Int { 256 }

  init(
    _ access: RowAccess<Format>, _ info: CollectionInfo, _ source: any StorageReading, _ entries: FamilyCursor,
    _ declaration: IndexDeclaration<Format.Instance>, isDescending: Bool, limit: Int?
  ) {
    self.access = access
    self.info = info
    self.source = source
    self.entries = entries
    self.isDescending = isDescending
    isDirect = declaration.isDirect
    seen = declaration.kind.hasSeveralValues ? [] : nil
    remaining = limit ?? .max
  }

  mutating func next() throws -> (element: Format.Instance, byteCount: Int)? {
    guard remaining > 0 else { return nil }
    if position == rows.count {
      try readBatch()
      if rows.isEmpty { return nil }
    }
    let row = try stored(rows[position].key, rows[position].bytes)
    position += 1
    remaining -= 1
    let instance = try access.instance(row) { [source, info] in try source.value(of: row.key, in: info.metadata) }
    return (instance, row.key.count + row.bytes.count)
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
    try access.read(keys, info, from: source) { rows.append(($0, $1)) }
  }

  private func stored(_ key: [UInt8], _ bytes: [UInt8]) throws -> StoredRow {
    do { return try StoredRow(key: key, bytes: bytes, info: info) } catch let error as DatabaseError {
      throw error.about(info.key(of: key))
    }
  }

  /// The key of the next row in the collection's family, and its content where the index has it.
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

  /// Continues at a value of the index.
  mutating func seek(to value: some KeyCodable, keyLimit: Int) throws {
    let bytes = try value.encoded()
    entries.seek(to: isDescending ? KeyRange.end(ofParts: bytes) : bytes)
    rows = []
    position = 0
    batchSize = 1
  }

  func count() throws -> Int {
    let ahead = rows.count - position
    if seen == nil { return try min(remaining, ahead + entries.count()) }
    var copy = self
    var count = ahead
    while count < remaining, try copy.nextEntry() != nil { count += 1 }
    return min(count, remaining)
  }
}
