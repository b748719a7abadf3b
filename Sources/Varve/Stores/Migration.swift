/// The steps of a migration: a read finds rows that are to be rewritten, a write rewrites them. So the writer is
/// held for what is rewritten, not for what is passed.
struct Migration<Format: RowFormat>: Sendable {
  /// How many rows one write rewrites.
  static var rowsMaximum: Int { 1_000 }
  /// How many bytes of rows, about: rows may be large.
  static var sizeMaximum: Int { 8 << 20 }
  /// How many rows one read examines, so that progress is reported and cancellation seen where there is little to do.
  static var examinedMaximum: Int { 20_000 }

  private let access: RowAccess<Format>
  private let limit: Format.Version?

  init(_ access: RowAccess<Format>, limit: Format.Version?) {
    self.access = access
    self.limit = limit
  }

  /// What one read has found.
  struct Found: Sendable {
    /// Whose rows they are: its name may be another collection's by the next step.
    var collection: UInt32?
    /// The rows to be rewritten.
    var keys: [[UInt8]] = []
    var examinedCount = 0
    /// Where the next one begins; nil: there are no more rows.
    var next: MigrationPosition?
  }

  /// Looks for outdated rows from a key on; from the first where the collection is another one by now.
  func find(from position: MigrationPosition?, _ tx: ReadTransaction) throws -> Found {
    var found = Found()
    guard let info = try access.collection(tx) else { return found }
    found.collection = info.record.id
    let first = position?.collection == info.record.id ? position?.key : nil
    let range = StorageRange(lower: first ?? info.range.lower, upper: info.range.upper)
    var objects = tx.cursor(range, in: info.objects)
    var metadata = MetadataScan(tx.cursor(range, in: info.metadata), isReverse: false)
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
        found.next = MigrationPosition(collection: info.record.id, key: key + [0])
        return found
      }
    }
    return found
  }

  /// Rewrites those of the rows that are still there and still outdated. Returns how many.
  func rewrite(_ found: Found, _ tx: WriteTransaction) throws -> Int {
    guard let info = try access.collection(tx), info.record.id == found.collection else { return 0 }
    var count = 0
    for key in found.keys {
      guard let row = try access.row(key, info, tx) else { continue }
      var bytes: [UInt8]?
      let isOutdated = try self.isOutdated(row) {
        bytes = try tx.value(of: key, in: info.metadata)
        return bytes
      }
      if isOutdated.metadata, let bytes {
        let metadata = try access.decodeMetadata(bytes, key, info)
        if isOutdated.object {
          try tx.set(try access.decode(row), Optional(metadata), key, info)
        } else {
          _ = try tx.replaceMetadata(Optional(metadata), key, info)
        }
      } else if isOutdated.object {
        _ = try tx.replaceObject(try access.decode(row), key, info)
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
      let object = try isOutdated(row.header.version, row.info) || isOfFormerCoder(row.header.coder, row.info)
      guard Format.Metadata.self != Never.self, row.header.hasMetadata, let bytes = try metadata() else {
        return (object, false)
      }
      let (coder, version, _, _) = unsafe try RowHeader.readMetadata(bytes.span.bytes)
      return (object, try isOutdated(version, row.info) || isOfFormerCoder(coder, row.info))
    } catch let error as DatabaseError {
      throw error.about(row.info.key(of: row.key))
    }
  }

  /// Whether another coder wrote a value than the one that writes now. A migration with a limit is about versions alone.
  private func isOfFormerCoder(_ mark: UInt8?, _ info: CollectionInfo) -> Bool {
    limit == nil && mark != info.coderMark
  }

  private func isOutdated(_ number: UInt32, _ info: CollectionInfo) throws -> Bool {
    if number == info.versions.current { return false }
    let version = try FormatVersions<Format>.version(number, info)
    return limit.map { FormatVersions<Format>.isOlder(version, than: $0) } ?? true
  }
}

/// Where a migration continues.
struct MigrationPosition: Hashable, Sendable {
  let collection: UInt32
  let key: [UInt8]

  /// Whether it is after another of the same collection.
  func isBehind(_ other: MigrationPosition?) -> Bool {
    other.map { $0.collection != collection || ByteOrder.precedes($0.key, key) } ?? true
  }
}

/// How far a migration is.
struct MigrationState {
  private(set) var position: MigrationPosition?
  private(set) var isDone = false
  private(set) var rewritten = 0
  private(set) var progress: BuildProgress

  init(rowsTotal: Int) { progress = BuildProgress(rowsDone: 0, rowsTotal: rowsTotal) }

  mutating func advance<Format>(_ found: Migration<Format>.Found, rewritten count: Int) {
    // A step that went back, or stayed, would never end.
    assert(found.next.map { $0.isBehind(position) } ?? true, "a migration goes forwards")
    position = found.next
    isDone = found.next == nil
    rewritten += count
    // Rows may have come and gone since they were counted.
    progress.rowsDone = isDone ? progress.rowsTotal : min(progress.rowsTotal, progress.rowsDone + found.examinedCount)
  }
}
