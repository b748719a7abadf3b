/// The object of a row, now and each time that the row changes: see `Database.observe(_:key:in:)`.
///
/// Safe from any thread; an iterator belongs to one task.
public struct ObjectObservation<Object: Decodable & Sendable>: AsyncSequence, Sendable {
  /// The object; nil as long as there is no row.
  public typealias Element = Object?

  private let database: DatabaseCore
  private let row: Result<RowKey, any Error>
  private let read: @Sendable (ReadTransaction) throws -> Object?

  init(
    _ database: DatabaseCore, _ row: Result<RowKey, any Error>,
    read: @escaping @Sendable (ReadTransaction) throws -> Object?
  ) {
    self.database = database
    self.row = row
    self.read = read
  }

  /// Begins an iteration: with the object as it is then.
  public func makeAsyncIterator() -> Iterator {
    Iterator(observation: Result { try database.observations.observe(.row(row.get()), in: database) }, read: read)
  }

  /// A look at a row.
  public struct Iterator: AsyncIteratorProtocol {
    private(set) var observation: Result<HeldObservation, any Error>?
    fileprivate let read: @Sendable (ReadTransaction) throws -> Object?
    private var isKnownAbsent = false

    fileprivate init(
      observation: Result<HeldObservation, any Error>, read: @escaping @Sendable (ReadTransaction) throws -> Object?
    ) {
      self.observation = observation
      self.read = read
    }

    /// The object when it has changed, at the first call at once; nil when the database was closed.
    public mutating func next() async throws -> Object?? {
      guard let observation else { return nil }
      do {
        if let object = try await next(observation.get()) { return .some(object) }
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

    private mutating func next(_ held: HeldObservation) async throws -> Object?? {
      let database = held.database
      let read = read
      while try await held.observation.next() != nil {
        let seen = try await database.readAside {
          try database.atPresent { snapshot in (snapshot.version, try database.read(at: snapshot, read)) }
        }
        guard let (version, object) = seen else { return nil }
        held.observation.didSee(version)
        // Nothing where nothing was: a collection was cleared, for instance.
        if object == nil, isKnownAbsent { continue }
        isKnownAbsent = object == nil
        return .some(object)
      }
      return nil
    }
  }
}

@available(*, unavailable)
extension ObjectObservation.Iterator: Sendable {}
