extension RowAccess where Format: StoreFormat {
  /// The indexes of the collection; nil where nothing was ever put into it.
  func indexes(
    _ tx: ReadTransaction
  ) throws -> (info: CollectionInfo, indexes: IndexesTransaction<Format.Instance>)? {
    guard let info = try collection(tx) else { return nil }
    return (info, try tx.indexes(of: name, named: info.indexesName, Format.Instance.self))
  }

  func begin(_ look: IndexLook<Format>, _ tx: ReadTransaction) throws -> any SeekableScan<Format.Instance> {
    guard let (info, indexes) = try indexes(tx) else { return EmptyScan<Format.Instance>() }
    let (part, declaration, range) = try look.part(indexes)
    let entries = try part.familyCursor(range, isReverse: look.isDescending, keysOnly: !declaration.isDirect)
    guard let entries else { return EmptyScan<Format.Instance>() }
    return IndexScan(
      self, info, tx.view(of: info.objects), entries, declaration, isDescending: look.isDescending, limit: look.limit)
  }

  /// Passes the rows that entries of an index have led to, read at once. Throws `.corruption` where one is not there.
  func read(
    _ keys: [[UInt8]], _ info: CollectionInfo, from source: any StorageReading, _ body: ([UInt8], [UInt8]) -> Void
  ) throws {
    let snapshot = source as? any StorageSnapshot
    let rows =
      try snapshot?.values(of: keys, in: info.objects) ?? keys.map { try source.value(of: $0, in: info.objects) }
    for (key, row) in zip(keys, rows) {
      guard let row else { throw missing(key, info) }
      body(key, row)
    }
  }

  private func missing(_ key: [UInt8], _ info: CollectionInfo) -> DatabaseError {
    DatabaseError(
      .corruption, "an index has a row that is not there; `rebuild` makes the index from the rows",
      collection: name, key: info.key(of: key).text)
  }

  /// The one instance of a value; nil where there is none.
  func first(_ look: IndexLook<Format>, _ tx: ReadTransaction) throws -> Format.Instance? {
    guard let (info, indexes) = try indexes(tx) else { return nil }
    let (part, declaration, range) = try look.part(indexes)
    guard let (entry, content) = try part.first(in: range) else { return nil }
    let key = try unsafe info.prefix + entry[IndexEntry.rowKey(in: entry.span.bytes)]
    if declaration.isDirect { return try instance(try StoredRow(key: key, bytes: content, info: info), tx) }
    guard let row = try row(key, info, tx) else { throw missing(key, info) }
    return try instance(row, tx)
  }

  func count(_ look: IndexLook<Format>, _ tx: ReadTransaction) throws -> Int {
    guard let (info, indexes) = try indexes(tx) else { return 0 }
    let (part, declaration, range) = try look.part(indexes)
    guard let entries = try part.familyCursor(range, keysOnly: true) else { return 0 }
    return try IndexScan(
      self, info, tx.view(of: info.objects), entries, declaration, isDescending: false, limit: look.limit
    ).count()
  }
}
