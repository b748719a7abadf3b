extension RowIndexSelection {
  /// Returns the part of a counted index with the range of the entries, if each of these is of another row, or nil
  /// otherwise. Throws as `begin`.
  private func counted(_ tx: ReadTransaction) throws -> CountedRows? {
    try tx.check()
    let range = try range
    guard let info = try tx.info(terms.collection) else { return nil }
    let indexes = try tx.rowIndexes(of: info)
    let slot = try indexes.slot(of: terms)
    let part = try indexes.readable(slot)
    // A row may have several values in a range, and has one entry for a value.
    let isSingle = !terms.kind.hasSeveralValues || (terms.keyType.isOnePart && range.isPoint)
    guard isSingle, indexes.isCounted(slot) else { return nil }
    return CountedRows(info: info, indexes: indexes, slot: slot, part: part, range: range)
  }

  private struct CountedRows {
    let info: CollectionInfo
    let indexes: any RowIndexes
    let slot: Int
    let part: Part
    let range: StorageRange
  }

  /// Returns the number of entries from the counts of the index, or nil if it has none for them.
  func countedCount(_ tx: ReadTransaction) throws -> Int? {
    guard terms.isCounted, let counted = try counted(tx) else { return nil }
    return try counted.part.count(counted.range)
  }

  /// Returns the number of selected rows that come before a row, or nil if it is not selected. Throws `.notIndexed`.
  func offset(of row: RowKey, _ tx: ReadTransaction) throws -> Int? {
    guard row.collection == terms.collection else {
      throw DatabaseError(
        .invalidArgument, "the row is of another collection than the index \"\(terms.name)\"",
        collection: row.collection, key: row.text)
    }
    guard let counted = try counted(tx) else { return try requireCounted(tx) }
    let (part, range) = (counted.part, counted.range)
    let entry = try counted.indexes.entries(of: row.bytes, in: counted.slot).first { range.holds($0) }
    guard let entry else { return nil }
    return isDescending ? try part.count(range.following(entry)) : try part.offset(of: entry, in: range)
  }

  /// Returns the selected rows at some offsets. Throws `.notIndexed`.
  func rows(at offsets: Range<Int>, _ tx: ReadTransaction) throws -> [Row] {
    guard let counted = try counted(tx) else { return try requireCounted(tx) ?? [] }
    let offsets = offsets.clamped(to: nil)
    if offsets.isEmpty { return [] }
    let info = counted.info
    let entries = try counted.part.cursor(
      from: offsets.lowerBound, in: counted.range, isReverse: isDescending, keysOnly: !terms.isDirect)
    var scan = CountedScan(
      entries, isDirect: terms.isDirect, limit: offsets.count, info, tx.view(of: info.objects))
    var rows: [Row] = []
    while let (key, bytes) = try scan.next() { rows.append(Row(try tx.stored(key, bytes, info), in: tx)) }
    return rows
  }

  /// Returns nil if the collection does not exist. Throws `.notIndexed` otherwise.
  private func requireCounted<Result>(_ tx: ReadTransaction) throws -> Result? {
    guard try tx.info(terms.collection) != nil else { return nil }
    let text =
      terms.kind.hasSeveralValues
      ? "has several values of a row, so that only the rows of one value have offsets"
      : "has no counts; declare it with `counted: true`"
    throw DatabaseError(.notIndexed, "index \"\(terms.name)\" \(text)", collection: terms.collection)
  }
}
