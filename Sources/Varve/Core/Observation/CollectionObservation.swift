/// What has changed in a collection since the consumer looked last: see `Database.observe(in:)`.
public struct CollectionChange: Sendable {
  /// Everything that was committed up to here is in it, or was in one before: what is read from now on is not older.
  public let version: CommitVersion
  /// Whether everything may be another, so that all is to be read again: at first, after a clearing, and where more
  /// rows changed than are worth a list. Then the lists are empty.
  public let isReload: Bool
  /// The rows that are there and were inserted, changed or touched, in order of their keys.
  public let changedKeys: [RowKey]
  /// The rows that were removed, in order of their keys.
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

/// The changes of a collection, those of several commits together where the consumer is slower.
///
/// Safe from any thread; an iterator belongs to one task.
public struct CollectionObservation: AsyncSequence, Sendable {
  /// What has changed.
  public typealias Element = CollectionChange

  private let database: DatabaseCore
  private let collection: String

  init(_ database: DatabaseCore, _ collection: String) {
    self.database = database
    self.collection = collection
  }

  /// Begins an iteration: with a reload.
  public func makeAsyncIterator() -> Iterator {
    Iterator(
      observation: Result { try database.observations.observe(.collection(collection), in: database) },
      collection: collection)
  }

  /// A look at a collection.
  public struct Iterator: AsyncIteratorProtocol {
    fileprivate var observation: Result<HeldObservation, any Error>?
    fileprivate let collection: String

    /// What has changed, at the first call at once; nil when the database was closed.
    public mutating func next() async throws -> CollectionChange? {
      guard let observation else { return nil }
      do {
        if let change = try await observation.get().observation.next() {
          return CollectionChange(change, in: collection)
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
  }
}

@available(*, unavailable)
extension CollectionObservation.Iterator: Sendable {}
