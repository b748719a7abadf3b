public import Varve

/// Edges that are added by hand.
extension RelationshipsTransaction {
  /// Adds an edge that begins at a row, and returns it as queries find it, so that it can be removed. An existing edge
  /// gets the new rules, order and attribute.
  ///
  /// Its ends may be created later in the transaction: `.danglingEdge` is thrown if one of them does not exist when
  /// rules are applied. Throws `.keyTooLong`, and `.invalidArgument` for an edge of another domain.
  @discardableResult
  public func add(_ edge: RelationshipEdge, from source: RowKey) throws -> RelationshipEdge {
    _ = try writing()
    guard edge.domain == definition.domain else {
      throw DatabaseError(
        .invalidArgument,
        "edge \"\(edge.name)\" is of domain \(Self.text(edge.domain)), and is added to \"\(context.name)\", which has domain "
          + Self.text(definition.domain))
    }
    let (sourceEnd, destination) = (try end(making: .row(source)), try end(making: edge.destination))
    try check(edge, sourceEnd, destination)
    let family = families.manual
    var toKey: [UInt8] = []
    EdgeFormat.appendToKey(destination[...], Array(edge.name.text.utf8)[...], sourceEnd[...], to: &toKey)
    let before = try value(of: toKey, family)
    var added = edge
    (added.source, added.isManual) = (source, true)
    if before == EdgeValue(edge) { return added }
    if let before, before.order != edge.order { try family.from.delete(Self.fromKey(toKey, before.order)) }
    try write(edge, from: sourceEnd, to: destination, family)
    log.note(EdgeLog.Change(isManual: true, before: before, reason: .edgeOnly, isChecked: true), of: toKey[...])
    return added
  }

  /// Adds an edge that begins at an instance: see the other form. Throws as that does, and `.invalidKey`.
  @discardableResult
  public func add<Source: Persistable>(_ edge: RelationshipEdge, from source: Source) throws -> RelationshipEdge {
    try add(edge, from: Source.rowKey(source.id))
  }

  private static func text(_ domain: String?) -> String { domain.map { "\"\($0)\"" } ?? "none" }

  /// Removes an edge that was added by hand, with the rules that it has in the database. Returns false if it does not
  /// exist. Throws `.invalidArgument` for an edge that a row declares: it is removed when the row no longer declares
  /// it.
  @discardableResult
  public func remove(_ edge: RelationshipEdge, as reason: EdgeRemoval = .edgeOnly) throws -> Bool {
    guard let source = edge.source else {
      throw DatabaseError(.invalidArgument, "edge \"\(edge.name)\" to \(edge.destination) does not say where it begins")
    }
    guard edge.isManual else {
      throw DatabaseError(
        .invalidArgument,
        "edge \"\(edge.name)\" to \(edge.destination) is declared by its source; set the row so that it does not declare it",
        collection: source.collection, key: source.text)
    }
    return try remove(EdgeQuery(edge.name, from: source, to: edge.destination), as: reason) > 0
  }

  /// Removes the edges that a query finds and that were added by hand, with the rules that they have in the database.
  /// Edges that rows declare are kept. Returns the number of removed edges.
  ///
  /// `.edgeOnly` applies no rule and notifies neither end. Complexity: that of the query.
  @discardableResult
  public func remove(_ query: EdgeQuery, as reason: EdgeRemoval = .edgeOnly) throws -> Int {
    _ = try writing()
    let family = families.manual
    var found: [(toKey: [UInt8], value: EdgeValue)] = []
    try forEachEntry(of: query, in: family) { source, name, order, destination in
      var toKey: [UInt8] = []
      EdgeFormat.appendToKey(destination, name, source, to: &toKey)
      if let value = try value(of: toKey, family) { found.append((toKey, value)) }
    }
    for (toKey, value) in found {
      try family.from.delete(Self.fromKey(toKey, value.order))
      try family.to.delete(toKey)
      observed?.note(toKey, isManual: true)
      log.note(EdgeLog.Change(isManual: true, before: value, reason: reason, isChecked: false), of: toKey[...])
    }
    return found.count
  }

  // MARK: - Entries

  /// Returns the key of an edge's entry by source, from that of its entry by destination.
  static func fromKey(_ toKey: [UInt8], _ order: Int64) throws -> [UInt8] {
    let key = try EdgeKey(toKey, bySource: false)
    var bytes: [UInt8] = []
    EdgeFormat.appendFromKey(key.second, key.name, order, key.first, to: &bytes)
    return bytes
  }

  /// Returns the value of an edge with its attribute and order, or nil if it does not exist.
  func value(of toKey: [UInt8], _ family: EdgeFamily) throws -> EdgeValue? {
    guard let bytes = try family.to.get(toKey) else { return nil }
    var value = try EdgeValue(bytes, bySource: false)
    if value.carries, let more = try family.from.get(try Self.fromKey(toKey, value.order)) {
      value.attributes = try EdgeValue(more, bySource: true).attributes
    }
    return value
  }
}
