/// Compares the result of a query with the one that its observer knows.
struct QueryDifferences<Format: StoreFormat>: Sendable {
  private let query: StoreQuery<Format>
  private let watcher: QueryWatcher<Format>
  /// The known result of a query with a limit, or nil before it was read.
  private var known: Result?

  /// The largest limit for which positions are reported.
  static var windowMaximum: Int { 10_000 }

  init(_ query: StoreQuery<Format>, _ watcher: QueryWatcher<Format>) {
    self.query = query
    self.watcher = watcher
  }

  /// Returns the last commit that is visible in a snapshot and whose rows were delivered. If another process writes the
  /// database, commits after the snapshot may have been delivered already.
  static func seen(at snapshot: CommitVersion, delivered: CommitVersion) -> CommitVersion {
    Swift.min(snapshot, delivered)
  }

  /// Notes that the result is about to be read.
  func begin() { watcher.begin() }

  /// Notes that the result is unchanged.
  func end() { watcher.end { _ in } }

  /// A result in the order of its query.
  fileprivate enum Result: Sendable {
    case window(QueryWindow<Format>)
    case keys([[UInt8]])

    var keys: [[UInt8]] {
      switch self {
      case .window(let window): window.entries.map(\.key)
      case .keys(let keys): keys
      }
    }
  }

  /// The data that was read at a snapshot.
  struct ReadData: Sendable {
    fileprivate enum Found: Sendable {
      case result(Result)
      /// The keys of changed rows in order, and whether each row is in the result.
      case rows(keys: [[UInt8]], isIn: [Bool])
    }
    let version: CommitVersion
    fileprivate let found: Found
    /// The changed fields of rows, if known.
    fileprivate let fields: [[UInt8]: Set<String>]
    /// The current values of the changed rows.
    let rows: [[UInt8]: [UInt8]]

    fileprivate init(_ version: CommitVersion, _ found: Found, _ changed: ChangedKeys<Format>? = nil) throws {
      self.version = version
      self.found = found
      fields = try changed?.changedFields() ?? [:]
      rows = changed?.found ?? [:]
    }
  }

  /// Reads the data for a comparison. It has no side effects, so it can be repeated.
  func read(_ change: ObservedChange, _ tx: ReadTransaction) throws -> ReadData {
    if change.isReload { return try ReadData(tx.version, .result(try result(tx))) }
    let rows = try ChangedKeys(change, query, tx)
    switch known {
    case .window(let window): return try ReadData(tx.version, .result(try changed(window, rows, tx)), rows)
    case .keys: return try ReadData(tx.version, .result(try result(tx)), rows)
    case nil: return try ReadData(tx.version, .rows(keys: rows.keys, isIn: try rows.areIn()), rows)
    }
  }

  /// Compares the data with the known result, and updates the latter. Returns nil if the result has not changed.
  mutating func compare(_ data: ReadData, _ change: ObservedChange) throws -> QueryChange<Format>? {
    switch data.found {
    case .result(let result):
      let before = known?.keys ?? []
      let after = result.keys
      if query.maximum != nil { known = result }
      watcher.end { picture in
        picture = ByteTable()
        picture.reserveCapacity(after.count)
        for key in after { picture.set(true, for: key) }
      }
      if !change.isReload { return try difference(from: before, to: after, change, data) }
      return QueryChange(
        version: data.version, isReload: true, ids: try ids(after), inserted: [], removed: [], updated: [],
        changedFields: [:], positions: nil)
    case .rows(let keys, let isIn): return try difference(keys, isIn, data)
    }
  }

  // MARK: - Whole results

  /// Reads the result from the storage.
  private func result(_ tx: ReadTransaction) throws -> Result {
    if QueryWindow.keeps(query) { return .window(try QueryWindow(query, tx)) }
    return try query.whileBuilt { query in
      guard let run = try QueryRun(query, tx) else { return .keys([]) }
      var scan = try run.begin(readsRows: false)
      var keys: [[UInt8]] = []
      while let key = try scan.nextKeyInOrder() { keys.append(Array(key[run.info.prefix.count...])) }
      return .keys(keys)
    }
  }

  private func ids(_ keys: [[UInt8]]) throws -> [Format.Identifier] {
    try keys.map { try RowKey(collection: query.store.access.name, bytes: $0).key() }
  }

  // MARK: - Changed rows

  private func difference(_ keys: [[UInt8]], _ isIn: [Bool], _ data: ReadData) throws -> QueryChange<Format>? {
    var (inserted, removed, updated): ([[UInt8]], [[UInt8]], [[UInt8]]) = ([], [], [])
    watcher.end { picture in
      for (key, isIn) in zip(keys, isIn) {
        switch (picture[key] == true, isIn) {
        case (false, true): inserted.append(key)
        case (true, false): removed.append(key)
        case (true, true): updated.append(key)
        case (false, false): continue
        }
        picture.set(isIn, for: key)
      }
    }
    if inserted.isEmpty, removed.isEmpty, updated.isEmpty { return nil }
    return QueryChange(
      version: data.version, isReload: false, ids: [], inserted: try ids(inserted), removed: try ids(removed),
      updated: try ids(updated), changedFields: try fields(of: updated, data), positions: nil)
  }

  private func fields(of updated: [[UInt8]], _ data: ReadData) throws -> [Format.Identifier: Set<String>] {
    var fields: [Format.Identifier: Set<String>] = [:]
    for (key, id) in zip(updated, try ids(updated)) { fields[id] = data.fields[key] }
    return fields
  }

  // MARK: - Windows

  /// Returns the window after rows have changed.
  private func changed(
    _ window: QueryWindow<Format>, _ rows: ChangedKeys<Format>, _ tx: ReadTransaction
  ) throws -> Result {
    let candidates: [QueryWindow<Format>.Entry]
    do { candidates = try rows.entries() } catch let error as DatabaseError
      where error.isOfUndecodableRow
    {
      // The storage decides whether such a row is in the result.
      return try result(tx)
    }
    return .window(try window.changed({ rows.contains($0.key) }, candidates, query, tx))
  }

  private func difference(
    from before: [[UInt8]], to after: [[UInt8]], _ change: ObservedChange, _ data: ReadData
  ) throws -> QueryChange<Format>? {
    let difference = ListDifference(from: before, to: after) { change.rows[$0] != nil }
    let new = Set(difference.came)
    let changes = after.indices.filter { change.rows[after[$0]] != nil && !new.contains($0) }
    if difference.isEmpty, changes.isEmpty { return nil }
    var positions: QueryPositions?
    if let maximum = query.maximum, maximum <= Self.windowMaximum {
      positions = QueryPositions(
        removals: difference.removals, insertions: difference.insertions, changes: changes)
    }
    let updated = changes.map { after[$0] }.sorted(by: ByteOrder.precedes)
    return QueryChange(
      version: data.version, isReload: false, ids: try ids(after),
      inserted: try ids(difference.came.map { after[$0] }.sorted(by: ByteOrder.precedes)),
      removed: try ids(difference.left.map { before[$0] }.sorted(by: ByteOrder.precedes)), updated: try ids(updated),
      changedFields: try fields(of: updated, data), positions: positions)
  }
}
