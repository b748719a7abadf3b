internal import Varve

/// Finds the entries of edges.
extension RelationshipsTransaction {
  /// Calls `body` with the pieces of each edge of one kind that a query finds, whether its ends exist or not. The edges
  /// are ordered by name and other end if the query has one end, and otherwise by source.
  func forEachEntry(
    of query: EdgeQuery, in family: EdgeFamily,
    _ body: (
      _ source: ArraySlice<UInt8>, _ name: ArraySlice<UInt8>, _ order: Int64, _ destination: ArraySlice<UInt8>
    ) throws -> Void
  ) throws {
    guard var cursor = try EdgeEntryCursor(query, family, self) else { return }
    while let key = try cursor.next() {
      try cursor.bySource
        ? body(key.first, key.name, key.order, key.second) : body(key.second, key.name, 0, key.first)
    }
  }
}

/// Scans the entries of one kind of edges that a query finds.
struct EdgeEntryCursor {
  private var cursor: PartCursor
  let bySource: Bool
  private let name: [UInt8]?
  /// The other end, if the query has both.
  private let second: [UInt8]?
  /// The value of the last entry.
  private(set) var value: [UInt8] = []

  /// Creates a cursor, or returns nil if no edge can be found because an end has no collection.
  init?(_ query: EdgeQuery, _ family: EdgeFamily, _ transaction: RelationshipsTransaction) throws {
    var source: [UInt8]?
    var destination: [UInt8]?
    if let row = query.source {
      source = try transaction.end(.row(row))
      if source == nil { return nil }
    }
    if let end = query.destination {
      destination = try transaction.end(end)
      if destination == nil { return nil }
    }
    bySource = source != nil || destination == nil
    second = source == nil ? nil : destination
    name = query.name.map { Array($0.text.utf8) }
    var range = StorageRange()
    if let first = source ?? destination { range = StorageRange(prefix: EdgeFormat.prefix(first[...], query.name)) }
    cursor = try (bySource ? family.from : family.to).cursor(range)
  }

  mutating func next() throws -> EdgeKey? {
    while let (bytes, value) = try cursor.next() {
      let key = try EdgeKey(bytes, bySource: bySource)
      if let name, key.name != name[...] { continue }
      if let second, key.second != second[...] { continue }
      self.value = value
      return key
    }
    return nil
  }
}
