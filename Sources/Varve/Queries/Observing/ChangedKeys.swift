/// The rows that are relevant to a query and were changed by commits, as of a snapshot.
struct ChangedKeys<Format: StoreFormat> {
  /// The keys in order, without the collection's prefix.
  let keys: [[UInt8]]
  private let query: StoreQuery<Format>
  private let change: ObservedChange
  private let transaction: ReadTransaction
  /// The collection, or nil if it does not exist in the snapshot.
  private let info: CollectionInfo?
  /// The rows, with nil for a row that was removed.
  private let rows: [[UInt8]?]

  init(_ change: ObservedChange, _ query: StoreQuery<Format>, _ tx: ReadTransaction) throws {
    self.change = change
    self.query = query
    transaction = tx
    let keys = change.rows.keys.sorted(by: ByteOrder.precedes)
    let info = try query.store.access.collection(tx)
    self.keys = keys
    self.info = info
    rows = try info.map { info in try tx.values(of: keys.map { info.prefix + $0 }, in: info.objects) } ?? []
  }

  /// The existing rows by their keys.
  var found: [[UInt8]: [UInt8]] {
    var found: [[UInt8]: [UInt8]] = [:]
    for (key, row) in zip(keys, rows) { found[key] = row }
    return found
  }

  func contains(_ key: [UInt8]) -> Bool { change.rows[key] != nil }

  /// Returns for each key whether its row fulfills the condition.
  func areIn() throws -> [Bool] {
    guard let info else { return keys.map { _ in false } }
    let reading = AnswerReading(query.store.access, info, transaction)
    let source = transaction.snapshot
    let filter = query.condition.map { RowFilter($0, reading, source) }
    return try zip(keys, rows).map { key, row in
      guard let row else { return false }
      if let filter { return try filter.fulfils(info.prefix + key, row) }
      return try !Format.decodesEachRow || reading.instance(info.prefix + key, row, source) != nil
    }
  }

  /// Returns the entries of a window for the rows that fulfil the condition. Throws the error of a row that can't be
  /// decoded, if the format says so.
  func entries() throws -> [QueryWindow<Format>.Entry] {
    guard let info else { return [] }
    let reading = AnswerReading(query.store.access, info, transaction)
    return try zip(keys, rows).compactMap { key, row in
      guard let row else { return nil }
      let stored = info.prefix + key
      guard let instance = try reading.instance(stored, row, transaction.snapshot) else { return nil }
      guard try query.condition?.holds(for: instance) ?? true else { return nil }
      return QueryWindow.Entry(instance, stored, query, info)
    }
  }

  /// Returns for each key the fields of its row that differ from before the commits, if that is known.
  func changedFields() throws -> [[UInt8]: Set<String>] {
    guard let info else { return [:] }
    let coder = query.store.access.core.coding.binaryCoder
    var fields: [[UInt8]: Set<String>] = [:]
    for (key, row) in zip(keys, rows) {
      guard let row, let before = change.rows[key]?.before else { continue }
      fields[key] = try ChangedFields.between(before, row, info, coder)
    }
    return fields
  }
}
