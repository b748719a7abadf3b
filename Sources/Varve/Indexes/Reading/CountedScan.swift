/// Scans the rows of the entries of a counted index from an offset on. Rows are read in batches.
struct CountedScan {
  private var entries: PartCursor
  private let isDirect: Bool
  private var remaining: Int
  private let info: CollectionInfo
  private let source: any StorageReading
  /// The rows that were read, with the next one last.
  private var rows: [(key: [UInt8], bytes: [UInt8])] = []

  private static var batchSizeMaximum: Int { 256 }

  init(
    _ entries: PartCursor, isDirect: Bool, limit: Int, _ info: CollectionInfo, _ source: any StorageReading
  ) {
    self.entries = entries
    self.isDirect = isDirect
    remaining = limit
    self.info = info
    self.source = source
  }

  /// Returns the key of the next row in the collection's family and its bytes, or nil after the last.
  mutating func next() throws -> (key: [UInt8], bytes: [UInt8])? {
    if rows.isEmpty { try readBatch() }
    return rows.popLast()
  }

  private mutating func readBatch() throws {
    let (prefix, isDirect) = (info.prefix, isDirect)
    let wanted = min(remaining, Self.batchSizeMaximum)
    var keys: [[UInt8]] = []
    for _ in 0..<wanted {
      let entry = try entries.withNext { key, value in
        let rowKey = key.extracting(try IndexEntry.rowKey(in: key))
        return (key: prefix + rowKey.copied, row: isDirect ? value.copied : [])
      }
      guard let entry else { break }
      if isDirect { rows.append((entry.key, entry.row)) } else { keys.append(entry.key) }
    }
    remaining -= wanted
    if !keys.isEmpty { try info.read(keys, from: source) { rows.append(($0, $1)) } }
    rows.reverse()
  }
}
