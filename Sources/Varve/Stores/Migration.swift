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
    /// The rows that can't be decoded, as far as the read has found them.
    var skipped = SkippedInMigration()
    /// The position at which the next read begins, or nil if there are no more rows.
    var next: MigrationPosition?
  }

  /// The result of one write.
  struct Rewritten: Sendable {
    var count = 0
    /// The rows that can't be decoded, and are left as they are.
    var skipped = SkippedInMigration()
  }

  /// Returns the number of rows, whether they can be decoded or not.
  func total(_ tx: ReadTransaction) throws -> Int { try access.collection(tx).map { try tx.count($0) } ?? 0 }

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
      let outdated = try outdated(key, bytes, info, &found.skipped) { try metadata.value(of: key) }
      if outdated != nil {
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

  /// Rewrites those of the rows that still exist and are still outdated, except those that can't be decoded.
  func rewrite(_ found: Found, _ tx: WriteTransaction) throws -> Rewritten {
    var rewritten = Rewritten()
    guard let info = try access.collection(tx), info.record.id == found.collection else { return rewritten }
    for key in found.keys {
      guard let bytes = try tx.value(of: key, in: info.objects),
        let outdated = try outdated(key, bytes, info, &rewritten.skipped, { try tx.value(of: key, in: info.metadata) })
      else { continue }
      let object: Format.Instance?
      let metadata: Format.Metadata?
      // Only what is decoded here concerns the row: a rule or an index that throws ends the migration.
      do {
        object = outdated.isObject ? try access.decode(outdated.row) : nil
        metadata = try outdated.metadata.map { try access.decodeMetadata($0, key, info) }
      } catch let error as DatabaseError where error.isOfUndecodableRow {
        rewritten.skipped.note(error.about(info.key(of: key)))
        continue
      }
      if let object, let metadata {
        try tx.set(object, Optional(metadata), key, info)
      } else if let object {
        _ = try tx.replaceObject(object, key, info)
      } else {
        _ = try tx.replaceMetadata(metadata, key, info)
      }
      rewritten.count += 1
    }
    return rewritten
  }

  /// What is outdated of a row.
  private struct Outdated {
    let row: StoredRow
    let isObject: Bool
    /// The metadata, if they are outdated.
    let metadata: [UInt8]?
  }

  /// Returns what is outdated of a row, or nil if it is current. A row whose header can't be read is noted as skipped,
  /// and so is one of a newer program. An error of the storage that reads the metadata is thrown.
  private func outdated(
    _ key: [UInt8], _ bytes: [UInt8], _ info: CollectionInfo, _ skipped: inout SkippedInMigration,
    _ metadata: () throws -> [UInt8]?
  ) throws -> Outdated? {
    let row: StoredRow
    do { row = try StoredRow(key: key, bytes: bytes, info: info) } catch let error as DatabaseError
      where error.isOfUndecodableRow
    {
      skipped.note(error.about(info.key(of: key)))
      return nil
    }
    let value = Format.Metadata.self != Never.self && row.header.hasMetadata ? try metadata() : nil
    do {
      let isObject = try isOutdated(row.header.version, info) || isOfFormerCoder(row.header.coder, info)
      let isMetadata = try value.map { try isOutdated(metadata: $0, info) } ?? false
      guard isObject || isMetadata else { return nil }
      return Outdated(row: row, isObject: isObject, metadata: isMetadata ? value : nil)
    } catch let error as DatabaseError where error.isOfUndecodableRow {
      skipped.note(error.about(info.key(of: key)))
      return nil
    }
  }

  private func isOutdated(metadata: [UInt8], _ info: CollectionInfo) throws -> Bool {
    let (coder, version, _, _) = unsafe try RowHeader.readMetadata(metadata.span.bytes)
    return try isOutdated(version, info) || isOfFormerCoder(coder, info)
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

/// The rows that a migration could not decode, and has left as they are.
struct SkippedInMigration: Sendable {
  private(set) var count = 0
  /// The error of the first of them.
  private(set) var first: DatabaseError?

  mutating func note(_ error: DatabaseError) {
    count += 1
    if first == nil { first = error }
  }

  /// Adds those of a later step.
  static func += (skipped: inout Self, other: Self) {
    skipped.count += other.count
    if skipped.first == nil { skipped.first = other.first }
  }
}

/// The progress of a migration.
struct MigrationState {
  private(set) var position: MigrationPosition?
  private(set) var isDone = false
  private(set) var rewritten = 0
  private(set) var progress: BuildProgress
  private var skipped = SkippedInMigration()

  init(rowsTotal: Int) { progress = BuildProgress(rowsDone: 0, rowsTotal: rowsTotal) }

  mutating func advance<Format>(_ found: Migration<Format>.Found, _ result: Migration<Format>.Rewritten) {
    // A step that did not advance the position would repeat endlessly.
    assert(found.next.map { $0.isAfter(position) } ?? true, "a migration goes forwards")
    position = found.next
    isDone = found.next == nil
    rewritten += result.count
    skipped += found.skipped
    skipped += result.skipped
    // Rows may have been added or removed since they were counted.
    progress.rowsDone = isDone ? progress.rowsTotal : min(progress.rowsTotal, progress.rowsDone + found.examinedCount)
    progress.rowsSkipped = skipped.count
  }

  /// Throws, for a format whose policy is to throw, if rows could not be decoded.
  func requireAll<Format: RowFormat>(_ format: Format.Type) throws {
    guard Format.undecodable.isThrowing, let first = skipped.first else { return }
    let others =
      skipped.count == 1
      ? "the row is left as it is" : "this row and \(skipped.count - 1) more are left as they are"
    throw DatabaseError(
      first.code, "\(first.message); \(others), and \(rewritten) others are rewritten", collection: first.collection,
      key: first.key, cause: first.cause)
  }
}
