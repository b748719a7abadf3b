extension RowAccess where Format: StoreFormat {
  /// Returns the collection and its indexes, or nil if the collection does not exist.
  func indexes(
    _ tx: ReadTransaction
  ) throws -> (info: CollectionInfo, indexes: IndexesTransaction<Format.Instance>)? {
    guard let info = try collection(tx) else { return nil }
    return (info, try tx.indexes(of: name, named: info.indexesName, Format.Instance.self))
  }

  func begin(_ selection: IndexSelection<Format>, _ tx: ReadTransaction) throws -> any SeekableScan<Format.Instance> {
    guard let (info, indexes) = try indexes(tx) else { return EmptyScan<Format.Instance>() }
    let (part, index, range) = try selection.part(indexes)
    let entries = try part.familyCursor(range, isReverse: selection.isDescending, keysOnly: !index.plan.isDirect)
    guard let entries else { return EmptyScan<Format.Instance>() }
    return try IndexScan(
      AnswerReading(self, info, tx), tx.view(of: info.objects), entries, index.declaration, selection)
  }

  /// Returns the only instance with a value, or nil if there is none. Values with a part that is nil belong to no one
  /// instance, because they are exempt from uniqueness.
  func first(_ selection: IndexSelection<Format>, _ tx: ReadTransaction) throws -> Format.Instance? {
    guard let (info, indexes) = try indexes(tx) else { return nil }
    let (part, index, range) = try selection.part(indexes)
    if index.mayHaveNil, try KeyPart.hasNil(range.lower) { return nil }
    guard let (entry, content) = try part.first(in: range) else { return nil }
    let key = try unsafe info.prefix + entry[IndexEntry.rowKey(in: entry.span.bytes)]
    guard let bytes = try index.plan.isDirect ? content : tx.value(of: key, in: info.objects) else {
      throw info.missingRow(key)
    }
    return try AnswerReading(self, info, tx).instance(key, bytes) { try tx.value(of: key, in: info.metadata) }
  }

  func count(_ selection: IndexSelection<Format>, _ tx: ReadTransaction) throws -> Int {
    guard let (info, indexes) = try indexes(tx) else { return 0 }
    let (part, index, range) = try selection.part(indexes)
    // A row may have several values in a range, and has one entry for a value.
    let isSingle = !index.declaration.kind.hasSeveralValues || (index.declaration.keyType.isOnePart && range.isPoint)
    if index.plan.isCounted, isSingle, index.declaration.prefix == nil, !Format.decodesEachRow {
      return min(try part.count(range), selection.limit ?? .max)
    }
    let readsRows = index.plan.isDirect && (index.declaration.prefix != nil || Format.decodesEachRow)
    guard let entries = try part.familyCursor(range, keysOnly: !readsRows) else { return 0 }
    return try IndexScan(
      AnswerReading(self, info, tx), tx.view(of: info.objects), entries, index.declaration, selection
    ).count()
  }
}
