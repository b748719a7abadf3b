/// The result of a query and its changes: see ``StoreQuery/changes()``.
///
/// Safe from any thread; an iterator belongs to one task.
public struct QueryObservation<Format: StoreFormat>: AsyncSequence, Sendable {
  /// A change of the result.
  public typealias Element = QueryChange<Format>

  private let query: StoreQuery<Format>

  init(_ query: StoreQuery<Format>) { self.query = query }

  /// Begins an iteration, whose first element is a reload.
  public func makeAsyncIterator() -> Iterator {
    let watcher = QueryWatcher(query)
    let database = query.store.database.core
    return Iterator(
      source: Result {
        try database.observations.observe(.watched(watcher, collection: query.store.access.name), in: database)
      },
      reader: QueryDifferences(query, watcher))
  }

  /// An iteration over the changes of a query's result.
  public struct Iterator: AsyncIteratorProtocol, HeldIterator {
    var source: Result<HeldObservation, any Error>?
    fileprivate var reader: QueryDifferences<Format>
    /// Whether the last read met a row that can't be decoded, so that the next one is a reload.
    private var isLost = false

    fileprivate init(source: Result<HeldObservation, any Error>, reader: QueryDifferences<Format>) {
      self.source = source
      self.reader = reader
    }

    /// Returns the next change. The first call returns at once. Returns nil when the database was closed.
    ///
    /// If it throws the error of a row that can't be decoded, the iteration has not ended: the next call waits for a
    /// commit to the collection, and returns a reload as soon as the result can be read.
    public mutating func next() async throws -> QueryChange<Format>? {
      try await advance()
    }

    mutating func next(from held: HeldObservation) async throws -> QueryChange<Format>? {
      while try await held.observation.wait() {
        guard let found = try await read(held) else { break }
        if let change = found { return change }
      }
      return nil
    }

    /// Reads the changes of commits up to the present one. The inner optional is nil if nothing changed, and the outer
    /// one if the database is closed.
    ///
    /// The compared rows have to be all rows that changed up to the snapshot at which they are read. Therefore the
    /// snapshot is chosen first, and then this waits for the delivery of the changes up to it.
    private mutating func read(_ held: HeldObservation) async throws -> QueryChange<Format>?? {
      let (database, before) = (held.database, reader)
      // From now on, every row that changes is recorded.
      before.begin()
      var attempts = 1
      while true {
        let present = try await database.readAtOnceOrOnExecutor {
          try database.publication.snapshot { database.changes.last }
        }
        guard let (snapshot, last) = present else { return nil }
        let version = QueryDifferences<Format>.seen(at: snapshot.version, delivered: last)
        await database.observations.delivered(through: version)
        guard let due = held.observation.due(through: version) else {
          if !isLost { before.end() }
          return .some(nil)
        }
        let change = isLost ? ObservedChange(version: due.version, isReload: true) : due
        do {
          let read: @Sendable () throws -> QueryDifferences<Format>.ReadData = {
            if database.options.follows { try database.catalog.refresh(snapshot) }
            return try database.read(at: snapshot, isCancellable: true) { tx in
              try before.read(change, tx)
            }
          }
          // The read covers either a few rows, which were just written, or the whole result.
          let seen =
            change.isReload ? try await database.readOnExecutor(read) : try await database.readAtOnceOrOnExecutor(read)
          guard let seen else { return nil }
          let found = try reader.compare(seen, change)
          isLost = false
          held.observation.didSee(version, seen.rows)
          return .some(found)
        } catch let error as DatabaseError where database.isToRepeat(error, attempts) {
          attempts += 1
        } catch let error as DatabaseError where error.isOfOneRow {
          // Until the result is known again, every commit to the collection leads to another read.
          isLost = true
          held.observation.didSee(version)
          throw error
        }
      }
    }
  }
}

@available(*, unavailable)
extension QueryObservation.Iterator: Sendable {}
