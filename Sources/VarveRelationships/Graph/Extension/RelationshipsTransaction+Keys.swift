public import Varve

/// Changes keys of rows.
extension RelationshipsTransaction {
  /// Changes the key of a row, together with its object: `item` has the new key. No rule is applied, and neither end is
  /// notified.
  ///
  /// Edges that were added by hand begin and end at the new key from now on. The declared edges of the row are those of
  /// `item`. Edges that other rows declare to the old key remain in those rows, and dangle until these rows are set; if
  /// such an edge must not dangle, `.danglingEdge` is thrown when rules are applied.
  ///
  /// Other extensions receive the removal of the old row and the insertion of the new one. Throws `.notFound` if no row
  /// has the old key, and `.alreadyExists` if a row has the new key.
  public func changeKey<Item: Persistable>(from key: Item.ID, to item: Item) throws {
    let writer = try writing()
    let (old, new) = (try Item.rowKey(key), try item.rowKey)
    guard try writer.contains(old) else {
      throw DatabaseError(
        .notFound, "the row that is to get another key does not exist", collection: old.collection, key: old.text)
    }
    guard try !writer.contains(new) else {
      throw DatabaseError(.alreadyExists, "a row has the new key already", collection: new.collection, key: new.text)
    }
    try writer.savepoint {
      let (oldEnd, newEnd) = (try end(making: .row(old)), try end(making: .row(new)))
      movingEnd = oldEnd
      defer { movingEnd = nil }
      try writer.remove(old)
      movingEnd = nil
      try declare([], from: oldEnd, isFresh: false, isNoted: false)
      try noteChecks(to: oldEnd)
      try moveEdges(from: oldEnd, to: newEnd)
      try item.persist(in: writer)
    }
  }

  /// Notes the declared edges to a row that must not dangle, so that they are checked when rules are applied.
  private func noteChecks(to end: [UInt8]) throws {
    var found: [(key: [UInt8], value: EdgeValue)] = []
    try families.declared.to.forEach(in: StorageRange(prefix: EdgeFormat.prefix(end[...], nil))) {
      keyBytes, valueBytes in
      var (key, value): ([UInt8], [UInt8]) = ([], [])
      key.replace(with: keyBytes)
      value.replace(with: valueBytes)
      found.append((key, try EdgeValue(value, bySource: false)))
      return true
    }
    for (key, value) in found where value.dangling != .weak {
      log.note(EdgeLog.Change(isManual: false, before: value, reason: .edgeOnly, isChecked: true), of: key[...])
    }
  }

  private func moveEdges(from old: [UInt8], to new: [UInt8]) throws {
    let family = families.manual
    for bySource in [true, false] {
      var cursor = try (bySource ? family.from : family.to).cursor(
        StorageRange(prefix: EdgeFormat.prefix(old[...], nil)))
      while let (bytes, _) = try cursor.next() {
        let key = try EdgeKey(bytes, bySource: bySource)
        let (source, destination) = bySource ? (key.first, key.second) : (key.second, key.first)
        try move(source, key.name, destination, from: old, to: new)
      }
    }
  }

  private func move(
    _ source: ArraySlice<UInt8>, _ name: ArraySlice<UInt8>, _ destination: ArraySlice<UInt8>, from old: [UInt8],
    to new: [UInt8]
  ) throws {
    let family = families.manual
    var toKey: [UInt8] = []
    EdgeFormat.appendToKey(destination, name, source, to: &toKey)
    // An edge from the row to itself is returned twice.
    guard let value = try value(of: toKey, family) else { return }
    try family.from.delete(Self.fromKey(toKey, value.order))
    try family.to.delete(toKey)
    observed?.note(toKey, isManual: true)
    func moved(_ end: ArraySlice<UInt8>) -> [UInt8] { end == old[...] ? new : Array(end) }
    guard let text = String(validating: name, as: UTF8.self), let to = try self.end(of: moved(destination)[...]),
      let from = try row(of: moved(source)[...])
    else { return }
    try write(
      RelationshipEdge(
        EdgeName(text), from: from, to: to, value.rules, value.dangling, order: value.order,
        attributeBytes: Array(value.attributes), isManual: true, domain: definition.domain),
      from: moved(source), to: moved(destination), family)
  }
}
