/// The steps of a migration: a read finds rows that are to be rewritten, a write rewrites them. So the writer is
/// held for what is rewritten, not for what is passed.
struct Migration<Format: StoreFormat>: Sendable {
  /// How many rows one write rewrites.
  static var rowsMaximum: Int { 1_000 }
  /// How many bytes of rows, about: rows may be large.
  static var sizeMaximum: Int { 8 << 20 }
  /// How many rows one read examines, so that progress is told and cancellation seen where there is little to do.
  static var examinedMaximum: Int { 20_000 }

  private let door: RowDoor<FormatRows<Format>>
  private let limit: Format.Version?

  init(_ door: RowDoor<FormatRows<Format>>, limit: Format.Version?) {
    self.door = door
    self.limit = limit
  }

  /// What one read has found.
  struct Found: Sendable {
    /// The rows to be rewritten.
    var keys: [[UInt8]] = []
    var examinedCount = 0
    /// Where the next one begins; nil: there are no more rows.
    var next: [UInt8]?
  }

  /// Looks for outdated rows from a key on.
  func find(from position: [UInt8]?, _ tx: ReadTransaction) throws -> Found {
    var found = Found()
    guard let info = try door.collection(tx) else { return found }
    let range = StorageRange(lower: position ?? info.range.lower, upper: info.range.upper)
    var objects = tx.cursor(range, in: info.objects)
    var metadata = MetadataWalk(tx.cursor(range, in: info.metadata), isReverse: false)
    var size = 0
    while let (key, bytes) = try objects.next() {
      found.examinedCount += 1
      let row = try tx.stored(key, bytes, info)
      let isOutdated = try self.isOutdated(row) { try metadata.value(of: key) }
      if isOutdated.object || isOutdated.metadata {
        found.keys.append(key)
        size += bytes.count
      }
      let isFull = found.keys.count == Self.rowsMaximum || size >= Self.sizeMaximum
      if isFull || found.examinedCount == Self.examinedMaximum {
        found.next = key + [0]
        return found
      }
    }
    return found
  }

  /// Rewrites those of the rows that are still there and still outdated. Returns how many.
  func rewrite(_ keys: [[UInt8]], _ tx: WriteTransaction) throws -> Int {
    guard let info = try door.collection(tx) else { return 0 }
    var count = 0
    for key in keys {
      guard let row = try door.row(key, info, tx) else { continue }
      var bytes: [UInt8]?
      let isOutdated = try self.isOutdated(row) {
        bytes = try tx.value(of: key, in: info.metadata)
        return bytes
      }
      if isOutdated.metadata, let bytes {
        let metadata = try door.decodeMetadata(bytes, key, info)
        if isOutdated.object {
          try tx.set(try door.decode(row), Optional(metadata), key, info)
        } else {
          _ = try tx.replaceMetadata(Optional(metadata), key, info)
        }
      } else if isOutdated.object {
        _ = try tx.replaceObject(try door.decode(row), key, info)
      } else {
        continue
      }
      count += 1
    }
    return count
  }

  private func isOutdated(
    _ row: StoredRow, metadata: () throws -> [UInt8]?
  ) throws -> (object: Bool, metadata: Bool) {
    do {
      let object = try isOutdated(row.header.version, row.info)
      guard Format.Metadata.self != Never.self, row.header.hasMetadata, let bytes = try metadata() else {
        return (object, false)
      }
      let version = unsafe try RowHeader.readMetadata(bytes.span.bytes).version
      return (object, try isOutdated(version, row.info))
    } catch let error as DatabaseError {
      throw error.about(row.info.key(of: row.key))
    }
  }

  private func isOutdated(_ number: UInt32, _ info: CollectionInfo) throws -> Bool {
    if number == info.versions.current { return false }
    let version = try FormatVersions<Format>.version(number, info)
    return limit.map { FormatVersions<Format>.isOlder(version, than: $0) } ?? true
  }
}

/// How far a migration is.
struct MigrationState {
  private(set) var position: [UInt8]?
  private(set) var isDone = false
  private(set) var rewritten = 0
  private(set) var progress: BuildProgress

  init(rowsTotal: Int) { progress = BuildProgress(rowsDone: 0, rowsTotal: rowsTotal) }

  mutating func advance<Format>(_ found: Migration<Format>.Found, rewritten count: Int) {
    // A step that went back, or stayed, would never end.
    assert(found.next.map { ByteOrder.precedes(position ?? [], $0) } ?? true, "a migration goes forwards")
    position = found.next
    isDone = found.next == nil
    rewritten += count
    // Rows may have come and gone since they were counted.
    progress.rowsDone = isDone ? progress.rowsTotal : min(progress.rowsTotal, progress.rowsDone + found.examinedCount)
  }
}
