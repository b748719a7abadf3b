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
  /// What is read, where observers of the same read once for all; nil: this one reads for itself.
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

  /// Begins an iteration: with what is read then.
  public func makeAsyncIterator() -> Iterator {
    let watcher = ReadWatcher(database)
    return Iterator(
      observation: Result {
        try database.observations.observe(.watched(watcher, collection: nil), in: database)
      },
      watcher: watcher,
      // Of another process's commits the version is known only by looking.
      shared: database.options.follows ? nil : key.map { database.observations.sharedReads.read($0, of: Value.self) },
      read: read, isSame: isSame)
  }

  /// A look at what a closure reads.
  public struct Iterator: AsyncIteratorProtocol {
    fileprivate var observation: Result<HeldObservation, any Error>?
    fileprivate let watcher: ReadWatcher
    fileprivate let shared: SharedRead<Value>?
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
      while try await held.observation.next() != nil {
        watcher.begin()
        let seen: SharedRead<Value>.Found?
        if let shared {
          // What was delivered before the watcher began was compared with what was read before: all of that has to be in the
          // value, and not just the commit that woke this observer.
          let database = held.database
          let present = try database.changes.whileOpen { try database.publication.snapshot().version }
          guard let present else { return nil }
          seen = try await shared.value(since: present) { try await found(held.database) }
        } else {
          seen = try await found(held.database)
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

    /// Runs the closure at the present snapshot; nil where the database is closed.
    private func found(_ database: DatabaseCore) async throws -> SharedRead<Value>.Found? {
      let read = read
      return try await database.readAside {
        try database.atPresent { snapshot in
          let (value, reads) = try database.recording(at: snapshot, read)
          return SharedRead.Found(version: snapshot.version, value: value, reads: reads)
        }
      }
    }
  }
}

@available(*, unavailable)
extension ReadObservation.Iterator: Sendable {}

/// Compares commits with what a closure has read.
private final class ReadWatcher: RowWatcher {
  // Not the database, which may end before this.
  private let catalog: Catalog
  private let extensions: ExtensionRegistry
  private let parts: ObservedParts
  private let state = FutexLock(State())

  private struct State {
    /// Nil while the closure runs: what it reads is not known, and every commit counts.
    var reads: RecordedReads?
    /// The families that this has as observed.
    var partFamilies: Set<UInt32> = []
  }

  init(_ database: DatabaseCore) {
    catalog = database.catalog
    extensions = database.extensions
    parts = database.observations.parts
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
