#if GRDB
  import Foundation
  import GRDB

  /// A task queue in SQLite, built like goqite (`MessageTable`), through GRDB.
  ///
  /// It uses a `DatabaseQueue`, because all operations write and SQLite has one writer: a `DatabasePool` would only add
  /// connections for readers. All statements are those that GRDB keeps prepared. Enqueueing is a `write`, which is a
  /// transaction. Receiving and settling are each an access without an explicit transaction, because one statement is
  /// a transaction by itself, and a handler runs between them.
  ///
  /// Durability: as for GRDB's object workloads, a write-ahead log that is not synced (`SQLiteSettings`): a commit
  /// survives the death of the process. With `--sync`, enqueueing is synced (`synchronous = FULL`).
  final class GRDBTaskEngine: MessageTableEngine, @unchecked Sendable {
    // Unchecked: only the row's single thread uses it.
    private let database: DatabaseQueue
    private var isSynced: Bool?

    static var version: String { GRDBObjects.version }
    static func fileUse(_ name: String) -> FileUse { SQLiteSettings.fileUse(name) }

    init(path: String, settings: EngineSettings) throws {
      database = try GRDBObjects.open(path, settings)
      try database.write { access in try access.execute(sql: MessageTable.create) }
      try use(sync: false)
    }

    func use(sync: Bool) throws {
      if sync == isSynced { return }
      try database.writeWithoutTransaction { access in try access.execute(sql: SQLiteSettings.synchronous(sync)) }
      isSynced = sync
    }

    func insert(_ count: Int, queues: Int, first: Int, delay: Int) throws {
      try database.write { access in
        let now = MessageTable.now()
        let due = now + delay
        let send = try access.cachedStatement(sql: MessageTable.send)
        for number in first..<(first + count) {
          let queue = number % max(1, queues)
          let body = Data(TaskText.bytes(number))
          try send.execute(arguments: [now, queue, body, due])
        }
      }
    }

    func next(_ queue: Int) throws -> ReceivedMessage? {
      try database.writeWithoutTransaction { access -> ReceivedMessage? in
        let receive = try access.cachedStatement(sql: MessageTable.receive)
        let now = MessageTable.now()
        let rows = try GRDB.Row.fetchCursor(receive, arguments: [now, queue])
        guard let row = try rows.next() else { return nil }
        let id: Int = row[0]
        let attempt: Int = row[2]
        // The size check stands for the handler, which receives the body.
        let size = try row.withUnsafeData(atIndex: 1) { body in body?.count ?? 0 }
        guard size == TaskText.size else { throw EngineFailure("a message has another size") }
        // The statement commits when it has no further row. A cursor that is released before would commit as well, but
        // would not report an error.
        _ = try rows.next()
        return ReceivedMessage(id: id, attempt: attempt)
      }
    }

    func settle(_ id: Int) throws {
      try database.writeWithoutTransaction { access in
        try access.cachedStatement(sql: MessageTable.remove).execute(arguments: [id])
      }
    }

    func waiting() throws -> (count: Int, largestQueue: Int) {
      try database.read { access -> (count: Int, largestQueue: Int) in
        let count = try access.cachedStatement(sql: MessageTable.count)
        guard let row = try GRDB.Row.fetchOne(count) else { return (0, 0) }
        let messages: Int = row[0]
        let largestQueue: Int = row[1]
        return (messages, largestQueue)
      }
    }

    func compact() throws { try database.vacuum() }

    /// Runs a checkpoint, which is SQLite's only deferred work.
    func waitForCompaction() throws -> UInt64 {
      _ = try database.writeWithoutTransaction { access in try access.checkpoint(.truncate) }
      return 0
    }

    func counters() -> EngineCounters { EngineCounters(countsTableBytes: false) }
    func close() throws { try database.close() }
  }
#endif
