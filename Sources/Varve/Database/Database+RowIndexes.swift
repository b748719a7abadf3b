/// Methods for the indexes of rows (``RowIndex``) outside a transaction.
extension Database {
  /// Returns the current rows with some values of an index. The first `next` throws what the same call in a transaction
  /// throws.
  public func rows<Value: KeyCodable>(
    _ values: IndexValues<Value>, from index: RowIndex<Value>, descending: Bool = false, limit: Int? = nil
  ) -> Rows<FetchedRow> {
    let selection = RowIndexSelection(index, values, descending: descending, limit: limit)
    return Rows(RowSource(core) { tx in FetchedIndexedRows(try selection.begin(tx), tx) })
  }

  // MARK: - Building

  /// Waits until all indexes of a collection of rows are built. Cancelling the task ends the wait, but not the build.
  /// Throws the error that has ended the build, `.unknownExtension` if the database was opened without indexes of the
  /// collection, and `.invalidArgument` inside a transaction.
  public func warmIndexes(of collection: String) async throws {
    let name = try core.requireIndexes(of: collection)
    try core.continueBuild(of: name)
    while let building = try core.building(name) {
      if try await building.build.waitForEndSuspended() { continue }
      try core.requireReady(building)
    }
  }

  /// Waits until all indexes of a collection are built, and blocks the calling thread: see the asynchronous form.
  @_disfavoredOverload
  public func warmIndexes(of collection: String) throws {
    let name = try core.requireIndexes(of: collection)
    try core.continueBuild(of: name)
    while let building = try core.building(name) {
      if building.build.waitForEnd() { continue }
      try core.requireReady(building)
    }
  }

  /// Builds an index again from the rows, and returns when it is built. The index cannot be used meanwhile. Throws as
  /// ``warmIndexes(of:)``, and `.notUnique` if several rows have the same value of a unique index.
  public func rebuild<Value: KeyCodable>(_ index: RowIndex<Value>) async throws {
    let (core, terms) = (core, index.terms)
    try core.requireNoTransaction("an index is built again")
    let name = try core.requireIndexes(of: index.collection)
    if try await core.writerExecutor.run({ try core.continueBuild(of: name, orIfFailed: true) }) {
      try await warmIndexes(of: index.collection)
    }
    try await core.writerExecutor.run { try core.rebuild(terms) }
    try await warmIndexes(of: index.collection)
    _ = try await read { tx in try RowIndexSelection(index, .all).begin(tx) != nil }
  }

  /// Builds an index again, and blocks the calling thread: see the asynchronous form.
  @_disfavoredOverload
  public func rebuild<Value: KeyCodable>(_ index: RowIndex<Value>) throws {
    let warmed: (Database) throws -> Void = { try $0.warmIndexes(of: index.collection) }
    let name = try core.requireIndexes(of: index.collection)
    if try core.continueBuild(of: name, orIfFailed: true) { try warmed(self) }
    try core.rebuild(index.terms)
    try warmed(self)
    try core.read { tx in _ = try RowIndexSelection(index, .all).begin(tx) }
  }

  /// Compares the indexes of a collection with its rows, and returns the differences: see
  /// ``Store/verifyIndexes(sample:)``.
  public func verifyIndexes(of collection: String, sample: Int? = nil) async throws -> [IndexDifference] {
    try await read { tx in try tx.indexDifferences(of: collection, sample: sample) }
  }

  /// Compares the indexes of a collection with its rows, and blocks the calling thread.
  @_disfavoredOverload
  public func verifyIndexes(of collection: String, sample: Int? = nil) throws -> [IndexDifference] {
    try core.read { tx in try tx.indexDifferences(of: collection, sample: sample) }
  }
}

extension ReadTransaction {
  /// Returns the rows of a collection that are in none of its indexes, because they cannot be decoded or have a value
  /// that cannot be a key.
  public final func unindexedRows(in collection: String) throws -> [UnindexedRow] {
    guard let info = try info(collection) else { return [] }
    return try rowIndexes(of: info).unindexedRows()
  }

  fileprivate func indexDifferences(of collection: String, sample: Int?) throws -> [IndexDifference] {
    if let sample, sample < 1 {
      throw DatabaseError(.invalidArgument, "a sample has at least 1 row, and \(sample) were asked for")
    }
    guard let info = try info(collection) else { return [] }
    return try rowIndexes(of: info).differences(sample: sample, info, self)
  }
}

extension DatabaseCore {
  /// Returns the name of the extension that keeps a collection's indexes. Throws `.unknownExtension`.
  fileprivate func requireIndexes(of collection: String) throws -> String {
    try requireNoTransaction("the indexes of a collection are waited for")
    try requireNoBuild("the indexes of a collection are waited for")
    let name = IndexesName.name(for: collection)
    guard extensions.list[name] != nil else {
      throw DatabaseError(
        .unknownExtension,
        "its indexes are not in use: write `indexed(by:)` in the definition that the database is opened with",
        collection: collection)
    }
    return name
  }

  fileprivate func rebuild(_ terms: RowIndexTerms) throws {
    let name = try requireIndexes(of: terms.collection)
    let slot = try read { tx in
      try tx.info(terms.collection).map { try tx.rowIndexes(of: $0).slot(of: terms) }
    }
    guard let slot else { return }
    try rebuild([slot], of: name) { tx in
      guard let info = try tx.info(terms.collection) else { return }
      try tx.rowIndexes(of: info).forgetCollisions(of: [slot])
    }
  }
}

/// A scan of an index's rows that outlives its transaction.
private struct FetchedIndexedRows: RowScan {
  private var scan: IndexedRowScan?
  private let metadata: (any StorageReading)?
  private let coding: ObjectCoding

  init(_ scan: IndexedRowScan?, _ tx: ReadTransaction) {
    self.scan = scan
    metadata = scan.map { tx.view(of: $0.info.metadata) }
    coding = tx.database.coding
  }

  mutating func next() throws -> (element: FetchedRow, byteCount: Int)? {
    guard let (key, bytes) = try scan?.next(), let info = scan?.info else { return nil }
    let row = try FetchedRow(key, bytes, info, coding) { [metadata] in
      try metadata?.value(of: key, in: info.metadata)
    }
    return (row, key.count + bytes.count)
  }
}
