/// The result of a query and its changes: see ``StoreQuery/changes()``.
///
/// Safe from any thread; an iterator belongs to one task.
public struct QueryObservation<Format: StoreFormat>: AsyncSequence, Sendable {
  /// What has changed.
  public typealias Element = QueryChange<Format>

  private let query: StoreQuery<Format>

  init(_ query: StoreQuery<Format>) { self.query = query }

  /// Begins an iteration: with a reload.
  public func makeAsyncIterator() -> Iterator {
    let watcher = QueryWatcher(query)
    let database = query.store.database.core
    return Iterator(
      observation: Result {
        try database.observations.observe(.watched(watcher, collection: query.store.access.name), in: database)
      },
      reader: QueryDifferences(query, watcher))
  }

  /// A look at the result of a query.
  public struct Iterator: AsyncIteratorProtocol {
    fileprivate var observation: Result<HeldObservation, any Error>?
    fileprivate var reader: QueryDifferences<Format>

    /// What has changed, at the first call at once; nil when the database was closed.
    public mutating func next() async throws -> QueryChange<Format>? {
      guard let observation else { return nil }
      do {
        let held = try observation.get()
        while try await held.observation.wait() {
          guard let found = try await read(held) else { break }
          if let change = found { return change }
        }
      } catch let error as CancellationError {
        // The look stays.
        throw error
      } catch {
        self.observation = nil
        throw error
      }
      self.observation = nil
      return nil
    }

    /// What commits up to the present one have changed; nil within: nothing. Nil where the database is closed.
    ///
    /// The rows that are compared have to be all that changed up to the snapshot at which they are read: so that is chosen
    /// first, and then what has changed up to there is waited for.
    private mutating func read(_ held: HeldObservation) async throws -> QueryChange<Format>?? {
      let (database, before) = (held.database, reader)
      // From here on each row that changes counts.
      before.begin()
      var attempts = 1
      while true {
        let present = try await database.readAside {
          try database.publication.snapshot { database.changes.last }
        }
        guard let (snapshot, version) = present else { return nil }
        await database.observations.delivered(through: version)
        guard let change = held.observation.due(through: version) else {
          before.end()
          return .some(nil)
        }
        do {
          let seen = try await database.readAside {
            if database.options.follows { try database.catalog.refresh(snapshot) }
            var reader = before
            let found = try database.read(at: snapshot) { tx in try reader.read(change, tx) }
            return (found, reader)
          }
          guard let (found, reader) = seen else { return nil }
          self.reader = reader
          held.observation.didSee(version)
          return .some(found)
        } catch let error as DatabaseError where database.isToRepeat(error, attempts) { attempts += 1 }
      }
    }
  }
}

@available(*, unavailable)
extension QueryObservation.Iterator: Sendable {}

/// Compares the result of a query with what its observer knows of it.
struct QueryDifferences<Format: StoreFormat>: Sendable {
  private let query: StoreQuery<Format>
  private let watcher: QueryWatcher<Format>
  /// Of a query with a limit: the keys of the result, in its order.
  private var window: [[UInt8]] = []

  /// Positions are known up to this limit.
  static var windowMaximum: Int { 10_000 }

  init(_ query: StoreQuery<Format>, _ watcher: QueryWatcher<Format>) {
    self.query = query
    self.watcher = watcher
  }

  /// The result is about to be read.
  func begin() { watcher.begin() }

  /// It is as it was.
  func end() { watcher.end { _ in } }

  /// Nil where nothing of the result has changed.
  mutating func read(_ change: ObservedChange, _ tx: ReadTransaction) throws -> QueryChange<Format>? {
    if change.isReload { return try reload(tx) }
    return query.maximum == nil
      ? try difference(Array(change.keys.keys), tx) : try windowDifference(change.keys, tx)
  }

  // MARK: - All of it

  private mutating func reload(_ tx: ReadTransaction) throws -> QueryChange<Format> {
    let (keys, ids) = try result(tx)
    watcher.end { picture in
      picture = ByteTable()
      picture.reserveCapacity(keys.count)
      for key in keys { picture.set(true, for: key) }
    }
    window = query.maximum == nil ? [] : keys
    return QueryChange(
      version: tx.version, isReload: true, ids: ids, inserted: [], removed: [], updated: [], positions: nil)
  }

  /// The keys and identifiers of the result, in its order.
  private func result(_ tx: ReadTransaction) throws -> (keys: [[UInt8]], ids: [Format.Identifier]) {
    try query.whileBuilt { try result(of: $0, tx) }
  }

  private func result(
    of query: StoreQuery<Format>, _ tx: ReadTransaction
  ) throws -> (keys: [[UInt8]], ids: [Format.Identifier]) {
    guard let run = try QueryRun(query, tx) else { return ([], []) }
    var scan = try run.begin(readsRows: false)
    var (keys, ids): ([[UInt8]], [Format.Identifier]) = ([], [])
    while let key = try scan.nextKeyInOrder() {
      keys.append(Array(key[run.info.prefix.count...]))
      ids.append(try run.info.key(of: key).key())
    }
    return (keys, ids)
  }

  // MARK: - Some rows

  private func difference(_ changed: [[UInt8]], _ tx: ReadTransaction) throws -> QueryChange<Format>? {
    let access = query.store.access
    let keys = changed.sorted(by: ByteOrder.precedes)
    var isIn = keys.map { _ in false }
    if let info = try access.collection(tx) {
      let filter = query.condition.map { RowFilter($0, access, info, tx.snapshot) }
      let stored = keys.map { info.prefix + $0 }
      for (index, row) in try tx.values(of: stored, in: info.objects).enumerated() {
        if let row { isIn[index] = try filter?.fulfils(stored[index], row) ?? true }
      }
    }
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
      version: tx.version, isReload: false, ids: [], inserted: try ids(inserted), removed: try ids(removed),
      updated: try ids(updated), positions: nil)
  }

  private func ids(_ keys: [[UInt8]]) throws -> [Format.Identifier] {
    try keys.map { try RowKey(collection: query.store.access.name, bytes: $0).key() }
  }

  // MARK: - A window

  private mutating func windowDifference(
    _ changed: [[UInt8]: Bool], _ tx: ReadTransaction
  ) throws -> QueryChange<Format>? {
    let (keys, ids) = try result(tx)
    watcher.end { picture in
      picture = ByteTable()
      for key in keys { picture.set(true, for: key) }
    }
    let (before, after) = (Set(window), Set(keys))
    let difference = keys.difference(from: window)
    let changes = keys.indices.filter { changed[keys[$0]] != nil && before.contains(keys[$0]) }
    let removedKeys = window.filter { !after.contains($0) }.sorted(by: ByteOrder.precedes)
    let insertedKeys = keys.filter { !before.contains($0) }.sorted(by: ByteOrder.precedes)
    defer { window = keys }
    if difference.isEmpty, changes.isEmpty { return nil }
    var positions: QueryPositions?
    if let maximum = query.maximum, maximum <= Self.windowMaximum {
      positions = QueryPositions(
        removals: difference.removals.map(\.offset).sorted(by: >),
        insertions: difference.insertions.map(\.offset).sorted(),
        changes: changes)
    }
    return QueryChange(
      version: tx.version, isReload: false, ids: ids, inserted: try self.ids(insertedKeys),
      removed: try self.ids(removedKeys),
      updated: try self.ids(changes.map { keys[$0] }.sorted(by: ByteOrder.precedes)),
      positions: positions)
  }
}

extension CollectionDifference.Change {
  fileprivate var offset: Int {
    switch self {
    case .insert(let offset, _, _), .remove(let offset, _, _): offset
    }
  }
}
