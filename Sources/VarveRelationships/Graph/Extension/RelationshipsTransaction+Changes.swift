@_spi(Extensions) public import Varve

/// Handles changes of rows.
extension RelationshipsTransaction {
  /// Collects the edges that a row declares, and notes those that were removed.
  @_spi(Extensions) public func didChange(_ change: borrowing RowChange) throws {
    // Most rows of most programs declare no edges.
    if change.event != .removed, observed == nil, !log.hasRemovedRows, case .plain = try kind(of: change) {
      if change.event == .inserted { log.noteInsertion() }
      return
    }
    var end: [UInt8] = []
    let number = change.collectionNumber
    change.key.withBytes { key in
      end.reserveCapacity(key.byteCount + 5)
      EdgeFormat.append(row: number, key, to: &end)
    }
    let isNew = change.event == .inserted
    if observed != nil, isNew || change.event == .removed { try noteEdges(toRow: end) }
    if change.event == .removed {
      // A row whose key is changed is not removed.
      if movingEnd == end { return }
      log.noteDeath(end)
      if isRemoving { log.noteRemoval(byRules: end) }
      return
    }
    if isNew { log.noteInsertion(end) }
    switch try kind(of: change) {
    case .plain: return
    case .declaring(let access):
      if let edges = try access.edges(of: change) {
        try declare(edges, from: end, isFresh: isNew && !log.hasRemovedRows)
      }
    case .formerlyDeclaring: try declare([], from: end, isFresh: false)
    case .undefined: try declareUndefined(change, end)
    }
  }

  /// Declares the edges of a row whose collection the program has not defined. The object that was set may declare
  /// edges nevertheless.
  private func declareUndefined(_ change: borrowing RowChange, _ end: [UInt8]) throws {
    guard let object = change.givenObject else { return try noteStale(change.collectionNumber) }
    let edges = try (object as? any RelationshipNode)?.relationshipEdges() ?? []
    let isFresh = change.event == .inserted && !log.hasRemovedRows
    if isFresh, edges.isEmpty { return }
    try declare(edges, from: end, isFresh: isFresh)
  }

  // MARK: - Missed changes

  /// Updates the declared edges of a row that changed without this extension. No rule is applied.
  @_spi(Extensions) public func didMiss(_ key: RowKey, _ row: Row?) throws {
    guard let number = try context.transaction.collectionNumber(of: key.collection) else { return }
    var end: [UInt8] = []
    key.withBytes { EdgeFormat.append(row: number, $0, to: &end) }
    guard let row else { return try declare([], from: end, isFresh: false, isNoted: false) }
    guard let type = row.objectType else { return try noteStale(number) }
    let edges = try NodeAccess.of(type)?.edges(of: row) ?? []
    try declare(edges, from: end, isFresh: false, isNoted: false)
  }

  /// Handles the removal of all rows of a collection. Returns true if no edge begins or ends in it, so that nothing has
  /// to be done; otherwise rules are applied to each row.
  @_spi(Extensions) public func removesAll(in collection: String?) throws -> Bool {
    // Without knowledge of all edges, the edges are removed without rules.
    guard try isComplete else {
      try removeDeclared(in: collection)
      return true
    }
    var prefix: [UInt8] = []
    if let collection {
      guard let number = try context.transaction.collectionNumber(of: collection) else { return true }
      prefix = EdgeFormat.prefix(ofCollection: number)
    }
    for family in families.both {
      for part in [family.from, family.to] where try part.first(in: StorageRange(prefix: prefix)) != nil {
        return false
      }
    }
    return true
  }

  private func removeDeclared(in collection: String?) throws {
    let family = families.declared
    guard let collection else {
      try family.from.deleteRange(StorageRange())
      return try family.to.deleteRange(StorageRange())
    }
    guard let number = try context.transaction.collectionNumber(of: collection) else { return }
    let range = StorageRange(prefix: EdgeFormat.prefix(ofCollection: number))
    var cursor = try family.from.cursor(range, keysOnly: true)
    var toKey: [UInt8] = []
    while let (key, _) = try cursor.next() {
      let parts = try EdgeKey(key, bySource: true)
      toKey.removeAll(keepingCapacity: true)
      EdgeFormat.appendToKey(parts.second, parts.name, parts.first, to: &toKey)
      try family.to.delete(toKey)
    }
    try family.from.deleteRange(range)
  }
}
