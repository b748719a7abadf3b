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
        guard let (snapshot, last) = present else { return nil }
        let version = QueryDifferences<Format>.seen(at: snapshot.version, delivered: last)
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
          held.observation.didSee(version, seen.rows)
          return .some(found)
        } catch let error as DatabaseError where database.isToRepeat(error, attempts) { attempts += 1 }
      }
    }
  }
}

@available(*, unavailable)
extension QueryObservation.Iterator: Sendable {}
