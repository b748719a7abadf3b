internal import FutexLocks
internal import Synchronization

/// A sequence of what a closure reads, at the beginning and each time that a commit changes what it has read: see
/// `Database.observe(_:)`.
///
/// It is safe to use from any thread; an iterator belongs to one task.
public struct ReadObservation<Value: Sendable>: AsyncSequence, Sendable {
  /// The result of the closure.
  public typealias Element = Value

  private let database: DatabaseCore
  private let read: @Sendable (ReadTransaction) throws -> Value
  /// Returns whether a value is the same as the one before.
  private let isSame: @Sendable (Value, Value) -> Bool
  /// The key by which observers of the same read share it, or `nil` if this one reads for itself.
  private let key: (any Hashable & Sendable)?

  init(
    _ database: DatabaseCore, sharedBy key: (any Hashable & Sendable)? = nil,
    isSame: @escaping @Sendable (Value, Value) -> Bool,
    _ read: @escaping @Sendable (ReadTransaction) throws -> Value
  ) {
    self.database = database
    self.key = key
    self.isSame = isSame
    self.read = read
  }

  /// Creates an iterator, whose first element is what is read then.
  public func makeAsyncIterator() -> Iterator {
    let watcher = ReadWatcher(database)
    return Iterator(
      source: Result {
        try database.observations.observe(.watched(watcher, collection: nil), in: database)
      },
      watcher: watcher,
      // The version of another process's commit is known only by reading, so a follower does not share reads.
      shared: database.options.follows ? nil : key.map { database.observations.sharedReads.read($0, of: Value.self) },
      read: read, isSame: isSame)
  }

  /// An iterator over what a closure reads.
  public struct Iterator: AsyncIteratorProtocol, HeldIterator {
    var source: Result<HeldObservation, any Error>?
    fileprivate let watcher: ReadWatcher
    fileprivate let shared: SharedRead<Value>?
    fileprivate let read: @Sendable (ReadTransaction) throws -> Value
    fileprivate let isSame: @Sendable (Value, Value) -> Bool
    fileprivate var last: Value?

    /// Waits for the next value and returns it. The first call returns at once. Returns `nil` when the database has
    /// been closed.
    public mutating func next() async throws -> Value? {
      try await advance()
    }

    mutating func next(from held: HeldObservation) async throws -> Value? {
      while let change = try await held.observation.next() {
        watcher.begin()
        let seen: SharedRead<Value>.Found?
        do { seen = try await found(held.database) } catch let error as CancellationError {
          held.observation.putBack(change)
          throw error
        }
        guard let seen else { return nil }
        watcher.end(seen.reads)
        held.observation.didSee(seen.version)
        if let last, isSame(last, seen.value) { continue }
        last = seen.value
        return seen.value
      }
      return nil
    }

    /// Returns what the closure reads at the present snapshot or later. Returns `nil` if the database is closed.
    private func found(_ database: DatabaseCore) async throws -> SharedRead<Value>.Found? {
      let read = read
      let body: @Sendable () async throws -> SharedRead<Value>.Found? = {
        try await database.readOnExecutor {
          try Task.checkCancellation()
          return try database.atPresent { snapshot in
            let (value, reads) = try database.recording(at: snapshot, read)
            return SharedRead.Found(version: snapshot.version, value: value, reads: reads)
          }
        }
      }
      guard let shared else { return try await body() }
      // The commits that were delivered before the watcher began were compared with the previous read: the value has to
      // include all of them, and not only the commit that woke this observer.
      let present = try database.changes.whileOpen { try database.publication.snapshot().version }
      guard let present else { return nil }
      return try await shared.value(since: present, body)
    }
  }
}

@available(*, unavailable)
extension ReadObservation.Iterator: Sendable {}

/// A watcher that compares commits with what a closure has read.
final class ReadWatcher: RowWatcher {
  // The watcher does not hold the database, which may be released earlier.
  private let catalog: Catalog
  private let extensions: ExtensionRegistry
  private let parts: ObservedParts
  private let state = FutexLock(State())

  private struct State {
    /// The reads of the closure, or `nil` while it runs: they are not known then, and every commit counts.
    var reads: RecordedReads?
    /// The families that are registered as observed for this watcher.
    var partFamilies: Set<UInt32> = []
  }

  init(_ database: DatabaseCore) {
    catalog = database.catalog
    extensions = database.extensions
    parts = database.observedParts
  }

  deinit { parts.replace(state.withLock { $0.partFamilies }, by: []) }

  func begin() { state.withLock { $0.reads = nil } }

  func end(_ found: RecordedReads) {
    let families = found.partFamilies
    state.withLock { state in
      parts.replace(state.partFamilies, by: families)
      state.partFamilies = families
      state.reads = found
    }
  }

  func mayConcern(_ changes: ChangeSet) -> Bool {
    state.withLock { $0.reads }?.areChanged(by: changes, catalog, extensions) ?? true
  }

  func mayConcern(_ parts: PartWrites.Noted) -> Bool {
    state.withLock { $0.reads }?.areChanged(by: parts, extensions) ?? true
  }

  func concerned(_ rows: ChangedRows) -> [[UInt8]] { rows.keys }
}
