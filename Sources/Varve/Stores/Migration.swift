/// The steps of a migration: a read finds the rows that have to be rewritten, and a write rewrites them. So the writer
/// is held only while rows are rewritten, not while they are examined.
struct Migration<Format: RowFormat>: Sendable {
  /// The maximum number of rows that one write rewrites.
  static var rowsMaximum: Int { 1_000 }
  /// The approximate maximum size in bytes of the rows that one write rewrites, because rows may be large.
  static var sizeMaximum: Int { 8 << 20 }
  /// The maximum number of rows that one read examines, so that progress is reported and cancellation noticed if there
  /// is little to rewrite.
  static var examinedMaximum: Int { 20_000 }

  private let access: RowAccess<Format>
  private let limit: Format.Version?

  init(_ access: RowAccess<Format>, limit: Format.Version?) {
    self.access = access
    self.limit = limit
  }

  /// The result of one read.
  struct Found: Sendable {
    /// The id of the collection. By the next step, another collection may have its name.
    var collection: UInt32?
    /// The keys of the rows that have to be rewritten.
    var keys: [[UInt8]] = []
    var examinedCount = 0
    /// The position at which the next read begins, or nil if there are no more rows.
    var next: MigrationPosition?
  }

  /// Finds outdated rows from a position on, or from the beginning if the name belongs to another collection by now.
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

  /// Rewrites those of the rows that still exist and are still outdated. Returns their number.
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

  /// Returns whether another coder than the current one wrote a value. A migration with a limit only considers
  /// versions.
  private func isOfFormerCoder(_ mark: UInt8?, _ info: CollectionInfo) -> Bool {
    limit == nil && mark != info.coderMark
  }

  private func isOutdated(_ number: UInt32, _ info: CollectionInfo) throws -> Bool {
    if number == info.versions.current { return false }
    let version = try FormatVersions<Format>.version(number, info)
    return limit.map { FormatVersions<Format>.isOlder(version, than: $0) } ?? true
  }
}

/// The position at which a migration continues.
struct MigrationPosition: Hashable, Sendable {
  let collection: UInt32
  let key: [UInt8]

  /// Returns whether the position is after another one of the same collection.
  func isAfter(_ other: MigrationPosition?) -> Bool {
    other.map { $0.collection != collection || ByteOrder.precedes($0.key, key) } ?? true
  }
}

/// The progress of a migration.
struct MigrationState {
  private(set) var position: MigrationPosition?
  private(set) var isDone = false
  private(set) var rewritten = 0
  private(set) var progress: BuildProgress

  init(rowsTotal: Int) { progress = BuildProgress(rowsDone: 0, rowsTotal: rowsTotal) }

  mutating func advance<Format>(_ found: Migration<Format>.Found, rewritten count: Int) {
    // A step that did not advance the position would repeat endlessly.
    assert(found.next.map { $0.isAfter(position) } ?? true, "a migration goes forwards")
    position = found.next
    isDone = found.next == nil
    rewritten += count
    // Rows may have been added or removed since they were counted.
    progress.rowsDone = isDone ? progress.rowsTotal : min(progress.rowsTotal, progress.rowsDone + found.examinedCount)
  }
}
