/// Decodes the rows of an answer, and treats one that can't be decoded as the format says (``UndecodableRowPolicy``).
///
/// Safe from any thread.
struct AnswerReading<Format: RowFormat>: Sendable {
  let access: RowAccess<Format>
  let info: CollectionInfo
  /// The list of the rows that are left out, or nil if the format throws.
  private let skipped: SkippedRowList?

  init(_ access: RowAccess<Format>, _ info: CollectionInfo, _ tx: ReadTransaction) {
    self.access = access
    self.info = info
    skipped = Format.decodesEachRow ? tx.skippedRowList : nil
  }

  /// Returns the instance of a row, or nil if it is left out. `metadata` is called for a row that has some, if
  /// instances contain them.
  @inline(__always)
  func instance(_ key: [UInt8], _ bytes: [UInt8], metadata: () throws -> [UInt8]?) throws -> Format.Instance? {
    guard let skipped else { return try access.instance(key, bytes, info, metadata: metadata) }
    return try instance(key, bytes, skipped, metadata)
  }

  /// Returns the instance of a row whose metadata is read from a source.
  @inline(__always)
  func instance(_ key: [UInt8], _ bytes: [UInt8], _ source: any StorageReading) throws -> Format.Instance? {
    try instance(key, bytes) { try source.value(of: key, in: info.metadata) }
  }

  @inline(never)
  private func instance(
    _ key: [UInt8], _ bytes: [UInt8], _ skipped: SkippedRowList, _ metadata: () throws -> [UInt8]?
  ) throws -> Format.Instance? {
    let row: StoredRow
    do { row = try StoredRow(key: key, bytes: bytes, info: info) } catch let error as DatabaseError
      where error.isOfUndecodableRow
    { return standIn(key, nil, error, skipped) }
    // An error of the storage that reads the metadata does not concern the row.
    let metadata = Format.readsMetadata && row.header.hasMetadata ? try metadata() : nil
    do { return try access.instance(row) { metadata } } catch let error as DatabaseError
      where error.isOfUndecodableRow
    { return standIn(key, row, error, skipped) }
  }

  /// Returns the stand-in for a row, or notes that the row is left out.
  private func standIn(
    _ key: [UInt8], _ row: StoredRow?, _ error: DatabaseError, _ skipped: SkippedRowList
  ) -> Format.Instance? {
    let row = access.undecodable(key, row, info, error)
    if let instance = Format.undecodable.standIn?(row) { return instance }
    skipped.note(row)
    return nil
  }

  /// Notes a row that an answer leaves out for another reason than its decoding here.
  func note(_ key: [UInt8], _ error: DatabaseError) {
    skipped?.note(access.undecodable(key, nil, info, error))
  }
}

extension RowFormat {
  /// Whether each row of an answer is decoded, because those that can't be are left out or replaced.
  static var decodesEachRow: Bool { !undecodable.isThrowing }
}

extension RowAccess {
  /// Decodes the instance of a row. Throws if it can't be decoded, whatever the format says of such rows.
  @inline(__always)
  func instance(
    _ key: [UInt8], _ bytes: [UInt8], _ info: CollectionInfo, metadata: () throws -> [UInt8]?
  ) throws -> Format.Instance {
    let row: StoredRow
    do { row = try StoredRow(key: key, bytes: bytes, info: info) } catch let error as DatabaseError {
      throw error.about(info.key(of: key))
    }
    return try instance(row, metadata: metadata)
  }

  /// Returns the description of a row that threw an error. `row` is nil if not even its header can be read.
  func undecodable(
    _ key: [UInt8], _ row: StoredRow?, _ info: CollectionInfo, _ error: DatabaseError
  ) -> UndecodableRow {
    UndecodableRow(key, row.flatMap { try? core.coding.value($0) }, info, error.about(info.key(of: key)))
  }

  /// Returns the instance of a row that a list shows at a place: a row that answers leave out throws its error, so that
  /// the list shows a placeholder.
  func shown(_ id: Format.Identifier, _ tx: ReadTransaction) throws -> Format.Instance? {
    guard Format.decodesEachRow else { return try load(id, tx) }
    guard let info = try collection(tx) else { return nil }
    let key = try key(id, info)
    guard let bytes = try tx.value(of: key, in: info.objects) else { return nil }
    let (instance, skipped) = try tx.collectingSkippedRows {
      try AnswerReading(self, info, tx).instance(key, bytes) { try tx.value(of: key, in: info.metadata) }
    }
    if instance == nil, let row = skipped.first.first { throw row.error }
    return instance
  }

  /// Returns the rows that this build can't decode, at most `limit`, whatever the format says of such rows.
  func undecodableRows(limit: Int, _ tx: ReadTransaction) throws -> [UndecodableRow] {
    guard limit >= 0 else {
      throw DatabaseError(.invalidArgument, "the limit is \(limit); it must not be negative")
    }
    guard let info = try collection(tx) else { return [] }
    var rows: [UndecodableRow] = []
    var objects = tx.cursor(info.range, in: info.objects)
    let source = tx.view(of: info.metadata)
    while rows.count < limit, let (key, bytes) = try objects.next() {
      var stored: StoredRow?
      do {
        let row = try StoredRow(key: key, bytes: bytes, info: info)
        stored = row
        let metadata =
          Format.readsMetadata && row.header.hasMetadata ? try source.value(of: key, in: info.metadata) : nil
        _ = try instance(row) { metadata }
      } catch let error as DatabaseError where error.isOfUndecodableRow {
        rows.append(undecodable(key, stored, info, error))
      }
    }
    return rows
  }
}
