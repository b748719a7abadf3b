#if GRDB
  import Dispatch
  import Foundation
  import GRDB
  import Synchronization

  /// GRDB's observation of a list: `ValueObservation` of the ids in order, and the difference of two arrays of them, as
  /// lists are updated with it. The index and the settings are those of `SQLiteShelf`.
  ///
  /// A commit is followed by a read of the whole list, whatever has changed. Only `viewchanges` is measured with GRDB,
  /// because all else is SQLite.
  final class GRDBShelf: ShelfEngine, @unchecked Sendable {
    // Unchecked: only the row's single thread writes, and the queue is safe from any thread.
    private let queue: DatabaseQueue

    static var version: String { GRDBObjects.version }
    static func fileUse(_ name: String) -> FileUse { SQLiteSettings.fileUse(name) }
    static var reads: [ShelfRead] { [] }
    static func keySize(of book: Book) throws -> Int? { nil }
    static func forms(_ workload: Workload) -> [ShelfForm] { workload == .viewchanges ? [.index] : [] }

    init(path: String, settings: EngineSettings) throws {
      queue = try GRDBObjects.open(path, settings)
      try queue.write { database in
        try database.execute(sql: SQLiteSettings.createTable)
        try database.execute(sql: ShelfSQL.createIndex)
      }
    }

    // MARK: - Writing

    func insert(_ count: Int, _ next: () -> Book) throws {
      try queue.write { database in
        for _ in 0..<count { try next().insert(database) }
      }
    }

    func update(_ count: Int, _ next: () -> Book) throws {
      try queue.write { database in
        for _ in 0..<count { try next().update(database) }
      }
    }

    func countRows() throws -> Int { try queue.read { database in try Book.fetchCount(database) } }

    // MARK: - Following

    /// The list that was shown last, and what has become of the commits.
    private final class Shown: Sendable {
      struct State {
        var ids: [UUID]?
        var used: UInt64 = 0
        var end: UInt64 = 0
        var failure: String?
      }
      let state = Mutex(State())
      let changed = DispatchSemaphore(value: 0)

      func show(_ ids: [UUID]) {
        let begin = ThreadClock.now()
        let old = state.withLock { $0.ids }
        let difference = old.map { ids.difference(from: $0) }
        let used = ThreadClock.now() - begin
        state.withLock { state in
          state.ids = ids
          state.used = used
          state.end = Clock.now()
        }
        withExtendedLifetime(difference) {}
        changed.signal()
      }
    }

    func follow(
      _ changes: ShelfChanges, rounds: Int, _ change: @escaping @Sendable (Int) throws -> Void
    ) throws -> [UInt64]? {
      let observation = ValueObservation.tracking { database in
        changes == .all
          ? try UUID.fetchAll(database, sql: ShelfSQL.scan)
          : try UUID.fetchAll(database, sql: ShelfSQL.window, arguments: [ShelfChanges.loaded])
      }
      let shown = Shown()
      let delivery = DispatchQueue(label: "shelf")
      let cancellable = observation.start(
        in: queue, scheduling: .async(onQueue: delivery),
        onError: { error in
          shown.state.withLock { $0.failure = "\(error)" }
          shown.changed.signal()
        },
        onChange: { ids in shown.show(ids) })
      defer { cancellable.cancel() }
      shown.changed.wait()
      return try (0..<rounds).map { round in
        try change(round)
        let begin = Clock.now()
        shown.changed.wait()
        let state = shown.state.withLock { $0 }
        if let failure = state.failure { throw EngineFailure(failure) }
        // The difference is computed on the queue that would be the main one.
        return changes == .main ? state.used : state.end - min(begin, state.end)
      }
    }

    // MARK: - Not measured

    private static let unmeasured = EngineFailure("GRDB is measured with viewchanges alone")

    func id(at offset: Int, of year: Int) throws -> UUID? { throw Self.unmeasured }
    func offset(of book: Book, byNumbering: Bool) throws -> Int? { throw Self.unmeasured }
    func count(of year: Int) throws -> Int { throw Self.unmeasured }
    func count(of year: Int, from title: String) throws -> Int { throw Self.unmeasured }
    func scan() throws -> Int { throw Self.unmeasured }
    func reopen() throws { throw Self.unmeasured }
    func build(_ form: ShelfForm, inShadow: Bool) throws -> Bool { throw Self.unmeasured }

    // MARK: - The engine

    func compact() throws { try queue.vacuum() }

    /// Runs a checkpoint, which is SQLite's only deferred work.
    func waitForCompaction() throws -> UInt64 {
      _ = try queue.writeWithoutTransaction { database in try database.checkpoint(.truncate) }
      return 0
    }

    func counters() -> EngineCounters { EngineCounters(countsTableBytes: false) }
    func close() throws { try queue.close() }
  }
#endif
