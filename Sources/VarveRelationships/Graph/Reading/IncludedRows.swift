public import Varve

extension RelationshipsTransaction {
  /// Returns the objects that edges of a name lead to, for many rows at once: for each row, the objects in the order of
  /// its edges.
  ///
  /// ```swift
  /// let books = try tx[graph].ends("author", of: songs.map { try $0.rowKey }, as: Author.self)
  /// ```
  ///
  /// Edges to rows of other collections are left out. With `.incoming`, these are the rows that have edges to the given
  /// rows, in the order of their keys. Throws `.invalidArgument` for `.both`, and what decoding throws.
  ///
  /// Complexity: one forward scan of the edges and one forward read of the rows, without a query per row. An object to
  /// which several edges lead is decoded once.
  public func ends<Item: Persistable>(
    _ name: EdgeName, of rows: [RowKey], as type: Item.Type, _ direction: EdgeDirection = .outgoing
  ) throws -> [[Item]] {
    guard direction != .both else {
      throw DatabaseError(.invalidArgument, "rows are included in one direction; ask for each")
    }
    let tx = try context.transaction
    guard let collection = try tx.collectionNumber(of: Item.collection) else { return rows.map { _ in [] } }
    var ends = PackedKeys()
    var isKnown: [Bool] = []
    for row in rows {
      let end = try self.end(.row(row))
      isKnown.append(end != nil)
      ends.append(end ?? [])
    }
    let found = try otherEnds(name, of: ends, collection, bySource: direction == .outgoing)
    let items = try load(found.unique, as: type)
    return zip(found.positions, isKnown).map { positions, isKnown in
      isKnown ? positions.compactMap { items[$0] } : []
    }
  }

  /// Returns for each of many ends the indexes of its other ends among all distinct ones.
  private func otherEnds(
    _ name: EdgeName, of ends: PackedKeys, _ collection: UInt32, bySource: Bool
  ) throws -> (positions: [[Int]], unique: PackedKeys) {
    var sorted = ends
    sorted.sort()
    let name = Array(name.text.utf8)
    var others = PackedKeys()
    /// The found edges by their ends.
    var found: [[UInt8]: [(key: [UInt8], position: Int)]] = [:]
    for family in families.both where !sorted.isEmpty {
      var sweep = EdgeSweep(bySource ? family.from : family.to, bySource: bySource, ends: sorted)
      while try sweep.next() {
        let layout = sweep.layout
        guard sweep.key[layout.name] == name[...], EdgeFormat.collection(sweep.key[layout.second]) == collection else {
          continue
        }
        found[Array(sweep.key[layout.first]), default: []].append((sweep.key, others.count))
        others.append(sweep.key, layout.second)
      }
    }
    var unique = others
    unique.sort()
    let positions = (0..<others.count).map { unique.firstIndex(of: others.appended($0)) }
    // Declared edges and edges that were added by hand are sorted into one order.
    for end in found.keys { found[end]?.sort { $0.key.lexicographicallyPrecedes($1.key) } }
    return ((0..<ends.count).map { found[Array(ends.appended($0))]?.map { positions[$0.position] } ?? [] }, unique)
  }

  private func load<Item: Persistable>(_ ends: PackedKeys, as type: Item.Type) throws -> [Item?] {
    let tx = try context.transaction
    var keys: [Item.ID] = []
    for index in 0..<ends.count {
      guard let row = try row(of: ends[index]) else { continue }
      keys.append(try row.key())
    }
    return try tx.rows(keys: keys, in: Item.collection).map { try $0?.object(as: type) }
  }
}

extension PackedKeys {
  /// Returns the index of a key that the list contains. The keys must be sorted.
  func firstIndex(of key: ArraySlice<UInt8>) -> Int {
    var (low, high) = (0, count)
    while low < high {
      let middle = (low + high) / 2
      if Self.compare(self[middle], key) < 0 { low = middle + 1 } else { high = middle }
    }
    return low
  }
}

/// An instance, and the rows that its edges of a name lead to.
public struct Included<Instance: Sendable, Item: Sendable>: Sendable {
  /// The instance.
  public let instance: Instance
  /// The rows, in the order of the edges.
  public let items: [Item]
}

/// A query whose instances are returned together with the rows that edges lead to.
public struct EdgeIncludingQuery<Format: StoreFormat, Item: Persistable>: Sendable {
  fileprivate let query: StoreQuery<Format>
  fileprivate let graph: ExtensionHandle<Relationships>
  fileprivate let name: EdgeName
  fileprivate let direction: EdgeDirection

  /// Returns the instances that the query finds in its order, each with its rows. Throws as `StoreQuery.fetch` and
  /// `RelationshipsTransaction.ends`.
  ///
  /// Complexity: that of the query and of `ends`, without a query per row.
  public func fetch(in tx: ReadTransaction) throws -> [Included<Format.Instance, Item>] {
    let instances = try query.fetch(in: tx)
    let rows = try instances.map { try RowKey(Format.identifier(of: $0), in: Format.collection) }
    let items = try tx[graph].ends(name, of: rows, as: Item.self, direction)
    return zip(instances, items).map { Included(instance: $0, items: $1) }
  }

  /// Returns the instances with their rows, in a read of its own.
  public func fetch(in database: Database) async throws -> [Included<Format.Instance, Item>] {
    try await database.read { tx in try fetch(in: tx) }
  }
}

extension StoreQuery {
  /// Returns a query that adds to each instance the rows that its edges of a name lead to, or with `.incoming` those
  /// that have edges to it.
  ///
  /// ```swift
  /// let songs = try store.query.filter { $0.year == 1969 }
  ///   .including(edges: graph, "artist", Artist.self)
  ///   .fetch(in: tx)
  /// for song in songs { print(song.instance.title, song.items.first?.name ?? "?") }
  /// ```
  public func including<Item: Persistable>(
    edges graph: ExtensionHandle<Relationships>, _ name: EdgeName, _ type: Item.Type,
    _ direction: EdgeDirection = .outgoing
  ) -> EdgeIncludingQuery<Format, Item> {
    EdgeIncludingQuery(query: self, graph: graph, name: name, direction: direction)
  }
}
