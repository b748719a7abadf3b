/// A sequence of the object of a row, at the beginning and each time that the row changes: see
/// `Database.observe(_:key:in:)`.
///
/// It is safe to use from any thread; an iterator belongs to one task.
public struct ObjectObservation<Object: Decodable & Sendable>: AsyncSequence, Sendable {
  /// The object, or `nil` as long as there is no row.
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

  /// Creates an iterator, whose first element is the current object.
  public func makeAsyncIterator() -> Iterator {
    Iterator(source: Result { try database.observations.observe(.row(row.get()), in: database) }, read: read)
  }

  /// An iterator over the object of a row.
  public struct Iterator: AsyncIteratorProtocol, HeldIterator {
    var source: Result<HeldObservation, any Error>?
    fileprivate let read: @Sendable (ReadTransaction) throws -> Object?
    private var isKnownAbsent = false

    fileprivate init(
      source: Result<HeldObservation, any Error>, read: @escaping @Sendable (ReadTransaction) throws -> Object?
    ) {
      self.source = source
      self.read = read
    }

    /// Waits until the object has changed and returns it. The first call returns at once. Returns `nil` when the
    /// database has been closed.
    public mutating func next() async throws -> Object?? {
      try await advance()
    }

    mutating func next(from held: HeldObservation) async throws -> Object?? {
      let database = held.database
      let read = read
      while let change = try await held.observation.next() {
        let seen: (CommitVersion, Object?)?
        do {
          seen = try await database.readOnExecutor {
            try Task.checkCancellation()
            return try database.atPresent { snapshot in
              (snapshot.version, try database.read(at: snapshot, isCancellable: true, read))
            }
          }
        } catch let error as CancellationError {
          held.observation.putBack(change)
          throw error
        }
        guard let (version, object) = seen else { return nil }
        held.observation.didSee(version)
        // A row that was absent and still is, for example after its collection was cleared, is not reported again.
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
