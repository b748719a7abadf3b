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
        let present = try await database.readAtOnceOrAside {
          try database.publication.snapshot { database.changes.last }
        }
        guard let (snapshot, version) = present else { return nil }
        await database.observations.delivered(through: version)
        guard let change = held.observation.due(through: version) else {
          before.end()
          return .some(nil)
        }
        do {
          let look: @Sendable () throws -> QueryDifferences<Format>.Look = {
            if database.options.follows { try database.catalog.refresh(snapshot) }
            return try database.read(at: snapshot) { tx in try before.look(change, tx) }
          }
          // Some rows, which were just written; or the whole result.
          let seen = change.isReload ? try await database.readAside(look) : try await database.readAtOnceOrAside(look)
          guard let seen else { return nil }
          let found = try reader.compare(seen, change)
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

  /// What was read at a snapshot.
  struct Look: Sendable {
    fileprivate enum Found: Sendable {
      /// All of the result, in its order.
      case result(keys: [[UInt8]], ids: [Format.Identifier])
      /// Of rows, in the order of their keys, whether they are in the result.
      case rows(keys: [[UInt8]], isIn: [Bool])
    }
    let version: CommitVersion
    fileprivate let found: Found
  }

  /// Reads what a comparison needs. It changes nothing, so that it can be done twice.
  func look(_ change: ObservedChange, _ tx: ReadTransaction) throws -> Look {
    if change.isReload || query.maximum != nil {
      let (keys, ids) = try result(tx)
      return Look(version: tx.version, found: .result(keys: keys, ids: ids))
    }
    let (keys, isIn) = try rows(Array(change.keys.keys), tx)
    return Look(version: tx.version, found: .rows(keys: keys, isIn: isIn))
  }

  /// Compares it with the result as it is known, which it is from then on. Nil where nothing of the result has changed.
  mutating func compare(_ look: Look, _ change: ObservedChange) throws -> QueryChange<Format>? {
    switch look.found {
    case .result(let keys, let ids):
      defer { if query.maximum != nil { window = keys } }
      watcher.end { picture in
        picture = ByteTable()
        picture.reserveCapacity(keys.count)
        for key in keys { picture.set(true, for: key) }
      }
      if !change.isReload { return try windowDifference(keys, ids, change.keys, look.version) }
      return QueryChange(
        version: look.version, isReload: true, ids: ids, inserted: [], removed: [], updated: [], positions: nil)
    case .rows(let keys, let isIn): return try difference(keys, isIn, look.version)
    }
  }

  // MARK: - All of it

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

  /// Rows in the order of their keys, and whether they are in the result.
  private func rows(_ changed: [[UInt8]], _ tx: ReadTransaction) throws -> (keys: [[UInt8]], isIn: [Bool]) {
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
    return (keys, isIn)
  }

  private func difference(
    _ keys: [[UInt8]], _ isIn: [Bool], _ version: CommitVersion
  ) throws -> QueryChange<Format>? {
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
      version: version, isReload: false, ids: [], inserted: try ids(inserted), removed: try ids(removed),
      updated: try ids(updated), positions: nil)
  }

  private func ids(_ keys: [[UInt8]]) throws -> [Format.Identifier] {
    try keys.map { try RowKey(collection: query.store.access.name, bytes: $0).key() }
  }

  // MARK: - A window

  private func windowDifference(
    _ keys: [[UInt8]], _ ids: [Format.Identifier], _ changed: [[UInt8]: Bool], _ version: CommitVersion
  ) throws -> QueryChange<Format>? {
    let (before, after) = (Set(window), Set(keys))
    let difference = keys.difference(from: window)
    let changes = keys.indices.filter { changed[keys[$0]] != nil && before.contains(keys[$0]) }
    let removedKeys = window.filter { !after.contains($0) }.sorted(by: ByteOrder.precedes)
    let insertedKeys = keys.filter { !before.contains($0) }.sorted(by: ByteOrder.precedes)
    if difference.isEmpty, changes.isEmpty { return nil }
    var positions: QueryPositions?
    if let maximum = query.maximum, maximum <= Self.windowMaximum {
      positions = QueryPositions(
        removals: difference.removals.map(\.offset).sorted(by: >),
        insertions: difference.insertions.map(\.offset).sorted(),
        changes: changes)
    }
    return QueryChange(
      version: version, isReload: false, ids: ids, inserted: try self.ids(insertedKeys),
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
