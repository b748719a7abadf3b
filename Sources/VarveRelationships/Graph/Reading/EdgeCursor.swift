internal import Varve

extension RelationshipsTransaction {
  /// Returns a cursor of the edges that a query finds. The edges of a row are ordered by name, order and other end; all
  /// edges are ordered by their sources. An edge is found if both of its ends exist.
  ///
  /// The cursor returns the edges as of its creation, whatever the transaction changes meanwhile; cursors may be
  /// nested.
  ///
  /// Complexity: one seek, and a lookup of the other end of each edge; O(n) in all edges if the query has no end.
  public func cursor(_ query: EdgeQuery = EdgeQuery()) throws -> EdgeCursor { try EdgeCursor(query, self) }

  /// Returns the edges that a query finds as an array. See `cursor`.
  public func edges(_ query: EdgeQuery = EdgeQuery()) throws -> [RelationshipEdge] {
    var cursor = try cursor(query)
    var edges: [RelationshipEdge] = []
    while let edge = try cursor.next() { edges.append(edge) }
    return edges
  }

  /// Returns the number of edges that a query finds. Complexity: as `cursor`; nothing is decoded.
  public func count(_ query: EdgeQuery = EdgeQuery()) throws -> Int {
    var cursor = try cursor(query)
    var count = 0
    while try cursor.skip() { count += 1 }
    return count
  }

  /// Returns whether a query finds an edge.
  public func hasEdge(_ query: EdgeQuery) throws -> Bool {
    var cursor = try cursor(query)
    return try cursor.skip()
  }

  /// Returns the declared edges whose destination does not exist, and edges added by hand that have lost an end while
  /// no program had the domain registered. Complexity: O(n) in all edges.
  public func danglingEdges() throws -> [RelationshipEdge] {
    var cursor = try EdgeCursor(EdgeQuery(), self, isDangling: true)
    var edges: [RelationshipEdge] = []
    while let edge = try cursor.next() { edges.append(edge) }
    return edges
  }
}

/// A cursor of edges: see `RelationshipsTransaction.cursor`. It belongs to the transaction.
public struct EdgeCursor {
  private let transaction: RelationshipsTransaction
  private var declared: EdgeEntryCursor?
  private var manual: EdgeEntryCursor?
  private var nextDeclared: EdgeKey?
  private var nextManual: EdgeKey?
  private let isDangling: Bool
  private var positions = EndLocations()

  init(_ query: EdgeQuery, _ transaction: RelationshipsTransaction, isDangling: Bool = false) throws {
    self.transaction = transaction
    self.isDangling = isDangling
    declared = try EdgeEntryCursor(query, transaction.families.declared, transaction)
    manual = try EdgeEntryCursor(query, transaction.families.manual, transaction)
    nextDeclared = try declared?.next()
    nextManual = try manual?.next()
  }

  /// Returns the next edge, or nil after the last.
  public mutating func next() throws -> RelationshipEdge? {
    while let (key, value, isManual, bySource) = try nextEntry() {
      let (source, destination) = bySource ? (key.first, key.second) : (key.second, key.first)
      guard let from = try transaction.row(of: source), let to = try transaction.end(of: destination) else { continue }
      var found = try EdgeValue(value, bySource: bySource)
      if bySource {
        found.order = key.order
      } else if found.carries {
        found = try transaction.value(of: key.bytes, transaction.families[isManual: isManual]) ?? found
      }
      return RelationshipEdge(
        try key.nameText, from: from, to: to, found.rules, found.dangling, order: found.order,
        attributeBytes: Array(found.attributes), isManual: isManual, domain: transaction.definition.domain)
    }
    return nil
  }

  /// Skips the next edge, and returns false if there is none.
  mutating func skip() throws -> Bool { try nextEntry() != nil }

  private mutating func nextEntry() throws -> (key: EdgeKey, value: [UInt8], isManual: Bool, bySource: Bool)? {
    while true {
      let isManual: Bool
      switch (nextDeclared, nextManual) {
      case (nil, nil): return nil
      case (_, nil): isManual = false
      case (nil, _): isManual = true
      case (let left?, let right?): isManual = PackedKeys.compare(right.bytes[...], left.bytes[...]) < 0
      }
      let found: (EdgeKey, [UInt8], Bool)?
      if isManual {
        found = nextManual.flatMap { key in manual.map { (key, $0.value, $0.bySource) } }
        nextManual = try manual?.next()
      } else {
        found = nextDeclared.flatMap { key in declared.map { (key, $0.value, $0.bySource) } }
        nextDeclared = try declared?.next()
      }
      guard let (key, value, bySource) = found else { return nil }
      let (source, destination) = bySource ? (key.first, key.second) : (key.second, key.first)
      let sourceExists = try positions.sourceExists(source, transaction)
      // The edges that a row declares do not exist without it.
      guard sourceExists || (isDangling && isManual) else { continue }
      let exists = try sourceExists && positions.destinationExists(destination, transaction)
      if exists != isDangling { return (key, value, isManual, bySource) }
    }
  }
}

/// A cache of the last lookups of ends, because neighboring edges share one.
struct EndLocations {
  private var source: (end: [UInt8], exists: Bool)?
  private var destination: (end: [UInt8], exists: Bool)?

  mutating func sourceExists(_ end: ArraySlice<UInt8>, _ transaction: RelationshipsTransaction) throws -> Bool {
    try Self.exists(end, &source, transaction)
  }

  mutating func destinationExists(_ end: ArraySlice<UInt8>, _ transaction: RelationshipsTransaction) throws -> Bool {
    try Self.exists(end, &destination, transaction)
  }

  private static func exists(
    _ end: ArraySlice<UInt8>, _ known: inout (end: [UInt8], exists: Bool)?, _ transaction: RelationshipsTransaction
  ) throws -> Bool {
    if let known, known.end[...] == end { return known.exists }
    let exists = try transaction.exists(end)
    known = (Array(end), exists)
    return exists
  }
}
