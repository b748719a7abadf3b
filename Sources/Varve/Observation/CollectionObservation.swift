/// The changes of a collection since the consumer received the previous ones: see `Database.observe(in:)`.
public struct CollectionChange: Sendable {
  /// The last commit whose changes are included here or were delivered before. What is read from now on is not older.
  public let version: CommitVersion
  /// A Boolean value that indicates whether anything may have changed, so that everything must be read again.
  ///
  /// It is true at first, after a clearing, and if more rows changed than are worth a list. The lists are empty then.
  public let isReload: Bool
  /// The keys of the existing rows that were inserted, changed or touched, in ascending order.
  public let changedKeys: [RowKey]
  /// The keys of the rows that were removed, in ascending order.
  public let removedKeys: [RowKey]

  init(_ change: ObservedChange, in collection: String) {
    version = change.version
    isReload = change.isReload
    func keys(areRemoved: Bool) -> [RowKey] {
      change.rows.filter { $0.value.isRemoved == areRemoved }.keys.sorted(by: ByteOrder.precedes).map {
        RowKey(collection: collection, bytes: $0)
      }
    }
    changedKeys = keys(areRemoved: false)
    removedKeys = keys(areRemoved: true)
  }
}

/// A sequence of the changes of a collection, which combines those of several commits if the consumer is slower.
///
/// It is safe to use from any thread; an iterator belongs to one task.
public struct CollectionObservation: AsyncSequence, Sendable {
  /// The changes of one or several commits.
  public typealias Element = CollectionChange

  private let database: DatabaseCore
  private let collection: String

  init(_ database: DatabaseCore, _ collection: String) {
    self.database = database
    self.collection = collection
  }

  /// Creates an iterator, whose first element is a reload.
  public func makeAsyncIterator() -> Iterator {
    Iterator(
      source: Result { try database.observations.observe(.collection(collection), in: database) },
      collection: collection)
  }

  /// An iterator over the changes of a collection.
  public struct Iterator: AsyncIteratorProtocol, HeldIterator {
    var source: Result<HeldObservation, any Error>?
    fileprivate let collection: String

    /// Waits for changes and returns them. The first call returns at once. Returns `nil` when the database has been
    /// closed.
    public mutating func next() async throws -> CollectionChange? {
      try await advance()
    }

    func next(from held: HeldObservation) async throws -> CollectionChange? {
      try await held.observation.next().map { CollectionChange($0, in: collection) }
    }
  }
}

@available(*, unavailable)
extension CollectionObservation.Iterator: Sendable {}
