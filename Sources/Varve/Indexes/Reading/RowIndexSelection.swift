/// A selection of the entries of an index of rows: a range of values, a direction, and a limit.
struct RowIndexSelection: Sendable {
  let terms: RowIndexTerms
  private let bounds: Result<(lower: [UInt8], upper: [UInt8]?), any Error>
  let isDescending: Bool
  private let limit: Int?

  /// Selects the entries with some values. A value that cannot be encoded is an error that `begin` throws, and not this
  /// initializer.
  init<Value: KeyCodable>(
    _ index: RowIndex<Value>, _ values: IndexValues<Value>, descending: Bool = false, limit: Int? = nil
  ) {
    terms = index.terms
    bounds = Result { try values.bounds(.none) }
    isDescending = descending
    self.limit = limit
  }

  /// The range of the entries. Throws `.invalidKey`.
  var range: StorageRange {
    get throws {
      let (lower, upper) = try bounds.get()
      return StorageRange(lower: lower, upper: upper)
    }
  }

  /// Begins a scan, or returns nil if the collection does not exist. Throws `.notReady`, `.notUnique`,
  /// `.unknownExtension`, `.invalidKey`, `.invalidArgument`.
  func begin(_ tx: ReadTransaction, keysOnly: Bool = false) throws -> IndexedRowScan? {
    try tx.check()
    if let limit, limit < 0 {
      throw DatabaseError(
        .invalidArgument, "the limit is \(limit); it must not be negative", collection: terms.collection)
    }
    guard let info = try tx.info(terms.collection) else { return nil }
    let part = try tx.rowIndexes(of: info).readable(terms)
    let isDirect = terms.isDirect && !keysOnly
    let range = try range
    guard let entries = try part.familyCursor(range, isReverse: isDescending, keysOnly: !isDirect) else { return nil }
    return IndexedRowScan(
      entries, isDirect: isDirect, hasSeveralValues: terms.kind.hasSeveralValues, limit: limit, of: info,
      from: tx.view(of: info.objects))
  }
}

/// The indexes of a collection, independent of the type of its objects.
protocol RowIndexes {
  /// Returns the part of an index. Throws `.notReady`, `.notUnique`, and `.invalidDefinition` for an index that the
  /// collection does not have, or has with another definition.
  func readable(_ terms: RowIndexTerms) throws -> Part
  func readable(_ slot: Int) throws -> Part
  func slot(of terms: RowIndexTerms) throws -> Int
  func isCounted(_ slot: Int) -> Bool
  func entries(of rowKey: [UInt8], in slot: Int) throws -> [[UInt8]]
  func forgetCollisions(of indexes: [Int]) throws
  func unindexedRows() throws -> [UnindexedRow]
  func differences(sample: Int?, _ info: CollectionInfo, _ tx: ReadTransaction) throws -> [IndexDifference]
}

extension IndexesTransaction: RowIndexes {
  func slot(of terms: RowIndexTerms) throws -> Int {
    let named = try terms.named(Instance.self)
    guard let slot = definition.indexes.firstIndex(where: { $0.name == named.name }) else {
      throw DatabaseError(
        .invalidDefinition, "the definition of the database has no index \"\(terms.name)\" for this collection",
        collection: terms.collection)
    }
    let found = definition.indexes[slot]
    guard found.definition == named.definition, found.declaration.version == terms.version else {
      throw DatabaseError(
        .invalidDefinition,
        "index \"\(terms.name)\" is \(named.definition) version \(terms.version) here, and \(found.definition) version \(found.declaration.version) in the definition of the database",
        collection: terms.collection)
    }
    return slot
  }

  func isCounted(_ slot: Int) -> Bool { definition.plans[slot].isCounted }

  func readable(_ terms: RowIndexTerms) throws -> Part { try readable(try slot(of: terms)) }

  func differences(sample: Int?, _ info: CollectionInfo, _ tx: ReadTransaction) throws -> [IndexDifference] {
    var verification = try IndexVerification(self, info, sample: sample, in: tx)
    try verification.run()
    return verification.differences
  }
}

extension ReadTransaction {
  /// Returns the indexes of a collection. Throws `.unknownExtension` if the database's definition has none for it.
  final func rowIndexes(of info: CollectionInfo) throws -> any RowIndexes {
    guard let registered = try find(info.indexesName), let found = try open(registered).listener as? any RowIndexes
    else {
      throw DatabaseError(
        .unknownExtension,
        "its indexes are not in use: write `indexed(by:)` in the definition that the database is opened with",
        collection: info.name)
    }
    return found
  }
}
