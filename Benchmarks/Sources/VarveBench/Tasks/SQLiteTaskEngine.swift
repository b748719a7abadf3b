#if SQLite
  import CSQLite
  import Foundation

  /// A task queue in SQLite, built like goqite (`MessageTable`), through SQLite's C API.
  ///
  /// One connection does all the work, without the cost of a library around it.
  ///
  /// Durability: as for SQLite's object workloads, a write-ahead log that is not synced (`SQLiteSettings`): a commit
  /// survives the death of the process. With `--sync`, enqueueing is synced (`synchronous = FULL`).
  final class SQLiteTaskEngine: MessageTableEngine, @unchecked Sendable {
    // Unchecked: only the row's single thread uses it.
    private let connection: SQLiteConnection
    private let begin, commit, send, receive, remove, count: SQLiteStatement
    private var isSynced: Bool?

    static var version: String { SQLiteObjects.version }
    static func fileUse(_ name: String) -> FileUse { SQLiteSettings.fileUse(name) }

    init(path: String, settings: EngineSettings) throws {
      connection = try SQLiteConnection(path: SQLiteSettings.createDirectory(path, settings))
      for pragma in SQLiteSettings.pragmas(settings) { try connection.execute(pragma) }
      try connection.execute(MessageTable.create)
      begin = try connection.prepare("BEGIN IMMEDIATE")
      commit = try connection.prepare("COMMIT")
      send = try connection.prepare(MessageTable.send)
      receive = try connection.prepare(MessageTable.receive)
      remove = try connection.prepare(MessageTable.remove)
      count = try connection.prepare(MessageTable.count)
      try use(sync: false)
    }

    func use(sync: Bool) throws {
      if sync == isSynced { return }
      try connection.execute(SQLiteSettings.synchronous(sync))
      isSynced = sync
    }

    func insert(_ count: Int, queues: Int, first: Int, delay: Int) throws {
      let now = MessageTable.now()
      try begin.run()
      for number in first..<(first + count) {
        try TaskText.bytes(number).withUnsafeBytes { body in
          send.bind(1, now)
          send.bind(2, number % max(1, queues))
          send.bind(3, blob: body)
          send.bind(4, now + delay)
          try send.run()
        }
      }
      try commit.run()
    }

    func next(_ queue: Int) throws -> ReceivedMessage? {
      defer { receive.reset() }
      receive.bind(1, MessageTable.now())
      receive.bind(2, queue)
      guard try receive.step() else { return nil }
      // The size check stands for the handler, which receives the body.
      guard receive.bytes(1).count == TaskText.size else { throw EngineFailure("a message has another size") }
      return ReceivedMessage(id: receive.integer(0), attempt: receive.integer(2))
    }

    func settle(_ id: Int) throws {
      remove.bind(1, id)
      try remove.run()
    }

    func waiting() throws -> (count: Int, largestQueue: Int) {
      defer { count.reset() }
      guard try count.step() else { return (0, 0) }
      return (count.integer(0), count.integer(1))
    }

    func compact() throws { try connection.execute("VACUUM") }

    func waitForCompaction() throws -> UInt64 {
      try connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
      return 0
    }

    func counters() -> EngineCounters { EngineCounters(countsTableBytes: false) }

    func close() throws {
      for statement in [begin, commit, send, receive, remove, count] { statement.finalize() }
      try connection.close()
    }
  }
#endif
