internal import FutexLocks
internal import Synchronization

/// What a closure reads, now and each time that a commit changes what it has read: see `Database.observe(_:)`.
///
/// Safe from any thread; an iterator belongs to one task.
public struct ReadObservation<Value: Sendable>: AsyncSequence, Sendable {
  /// What the closure returned.
  public typealias Element = Value

  private let database: DatabaseCore
  private let read: @Sendable (ReadTransaction) throws -> Value
  /// Whether a value is the same as the one before.
  private let isSame: @Sendable (Value, Value) -> Bool

  init(
    _ database: DatabaseCore, isSame: @escaping @Sendable (Value, Value) -> Bool,
    _ read: @escaping @Sendable (ReadTransaction) throws -> Value
  ) {
    self.database = database
    self.isSame = isSame
    self.read = read
  }

  /// Begins an iteration: with what is read then.
  public func makeAsyncIterator() -> Iterator {
    let watcher = ReadWatcher(database.catalog)
    return Iterator(
      observation: Result {
        try database.observations.observe(.watched(watcher, collection: nil), in: database)
      },
      watcher: watcher, read: read, isSame: isSame)
  }

  /// A look at what a closure reads.
  public struct Iterator: AsyncIteratorProtocol {
    fileprivate var observation: Result<HeldObservation, any Error>?
    fileprivate let watcher: ReadWatcher
    fileprivate let read: @Sendable (ReadTransaction) throws -> Value
    fileprivate let isSame: @Sendable (Value, Value) -> Bool
    fileprivate var last: Value?

    /// The next value, at the first call at once; nil when the database was closed.
    public mutating func next() async throws -> Value? {
      guard let observation else { return nil }
      do {
        if let value = try await next(observation.get()) { return value }
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

    private mutating func next(_ held: HeldObservation) async throws -> Value? {
      let (database, read, watcher) = (held.database, read, watcher)
      while try await held.observation.next() != nil {
        watcher.begin()
        let seen = try await database.readAside {
          try database.atPresent { snapshot in
            let (value, reads) = try database.recording(at: snapshot, read)
            return (snapshot.version, value, reads)
          }
        }
        guard let (version, value, reads) = seen else { return nil }
        watcher.end(reads)
        held.observation.didSee(version)
        if let last, isSame(last, value) { continue }
        last = value
        return value
      }
      return nil
    }
  }
}

@available(*, unavailable)
extension ReadObservation.Iterator: Sendable {}

/// Compares commits with what a closure has read.
private final class ReadWatcher: RowWatcher {
  private let catalog: Catalog
  /// Nil while the closure runs: what it reads is not known, and every commit counts.
  private let reads = FutexLock<RecordedReads?>(nil)

  init(_ catalog: Catalog) { self.catalog = catalog }

  func begin() { reads.withLock { $0 = nil } }
  func end(_ found: RecordedReads) { reads.withLock { $0 = found } }

  func mayConcern(_ changes: ChangeSet) -> Bool {
    reads.withLock { $0 }?.areChanged(by: changes, catalog) ?? true
  }

  func concerned(_ rows: ChangedRows) -> [[UInt8]] { rows.keys }
}
