extension QueryPlanner {
  /// Returns whether a row that is in no index belongs to the answer, so that the rows have to be read.
  ///
  /// Throws the error of such a row if it can't be decoded and the format says so: whether it belongs to the answer is
  /// not known. Complexity: one seek, and a read for each row that is in no index.
  func hasUnindexedMatch() throws -> Bool {
    guard let indexes, try !indexes.hasAllRows() else { return false }
    let reading = AnswerReading(query.store.access, info, transaction)
    var listed = try indexes.part(indexes.definition.unindexedPart).cursor(keysOnly: true)
    while let (rowKey, _) = try listed.next() {
      let key = info.prefix + rowKey
      guard let bytes = try transaction.value(of: key, in: info.objects) else { continue }
      let instance = try reading.instance(key, bytes) { try transaction.value(of: key, in: info.metadata) }
      if let instance, try query.condition?.holds(for: instance) ?? true { return true }
    }
    return false
  }
}

extension IndexesTransaction {
  /// Returns whether every row is in the indexes: none could not be decoded, or has a value that cannot be a key.
  func hasAllRows() throws -> Bool { try part(definition.unindexedPart).first(in: StorageRange()) == nil }

  /// Returns whether an index contains all rows and can be used.
  func isUsable(_ slot: Int) throws -> Bool {
    guard try part(slot).isReady else { return false }
    return try !definition.plans[slot].isUnique || collisions(of: slot) == nil
  }
}
