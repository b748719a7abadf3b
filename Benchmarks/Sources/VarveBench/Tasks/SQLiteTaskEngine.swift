#if SQLite
  import CSQLite
  import Foundation

  /// A task queue in SQLite, built like goqite, through SQLite's C API.
  ///
  /// It has a table of messages, and an index of queue, priority and time. To receive is an update of the first message
  /// that is due, which returns it, and to settle is a delete. Integers replace goqite's texts, and one connection does
  /// all the work, without the cost of a library around it.
  ///
  /// Durability: as for SQLite's object workloads, a write-ahead log that is not synced (`SQLiteSettings`): a commit
  /// survives the death of the process.
  final class SQLiteTaskEngine: TaskEngine, @unchecked Sendable {
    // Unchecked: only the row's single thread uses it.
    private let connection: SQLiteConnection
    private let begin, commit, send, receive, remove, count: SQLiteStatement
    private var queues = 1

    static var version: String { SQLiteObjects.version }
    static func fileUse(_ name: String) -> FileUse { SQLiteSettings.fileUse(name) }

    init(path: String, settings: EngineSettings) throws {
      connection = try SQLiteConnection(path: SQLiteSettings.createDirectory(path, settings))
      for pragma in SQLiteSettings.pragmas(settings) { try connection.execute(pragma) }
      try connection.execute(SQLiteSettings.synchronous(false))
      try connection.execute(
        """
        CREATE TABLE IF NOT EXISTS goqite (
          id INTEGER PRIMARY KEY, created INTEGER NOT NULL, queue INTEGER NOT NULL, body BLOB NOT NULL,
          timeout INTEGER NOT NULL, received INTEGER NOT NULL DEFAULT 0, priority INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        CREATE INDEX IF NOT EXISTS goqiteQueue ON goqite (queue, priority DESC, created);
        """)
      begin = try connection.prepare("BEGIN IMMEDIATE")
      commit = try connection.prepare("COMMIT")
      send = try connection.prepare("INSERT INTO goqite (created, queue, body, timeout) VALUES (?, ?, ?, ?)")
      receive = try connection.prepare(
        """
        UPDATE goqite SET timeout = ?1 + 5000, received = received + 1 WHERE id = (
          SELECT id FROM goqite WHERE queue = ?2 AND timeout <= ?1 AND received < 3
          ORDER BY priority DESC, created LIMIT 1
        ) RETURNING id, body
        """)
      remove = try connection.prepare("DELETE FROM goqite WHERE id = ?")
      count = try connection.prepare("SELECT count(*), coalesce(max(queue), 0) FROM goqite")
    }

    private static func now() -> Int { Int(Clock.now() / 1_000_000) }

    func enqueue(_ count: Int, queues: Int, first: Int, sync: Bool) throws {
      if sync { throw EngineFailure("the SQLite queue is measured without syncs") }
      let now = Self.now()
      try begin.run()
      for number in first..<(first + count) {
        try TaskText.bytes(number).withUnsafeBytes { body in
          send.bind(1, now)
          send.bind(2, number % max(1, queues))
          send.bind(3, blob: body)
          send.bind(4, now)
          try send.run()
        }
      }
      try commit.run()
    }

    /// Returns the id of the next message of a queue, or `nil` if the queue has none.
    private func next(_ queue: Int) throws -> Int? {
      defer { receive.reset() }
      receive.bind(1, Self.now())
      receive.bind(2, queue)
      guard try receive.step() else { return nil }
      // The size check stands for the handler, which receives the body.
      guard receive.bytes(1).count == TaskText.size else { throw EngineFailure("a message has another size") }
      return receive.integer(0)
    }

    private func settle(_ id: Int) throws {
      remove.bind(1, id)
      try remove.run()
    }

    /// Runs the tasks by one worker, because SQLite has one writer: more workers would wait for each other.
    func runAll(_ count: Int, workers: Int, isSerial: Bool) throws {
      let queues = try waiting().largestQueue + 1
      var isLeft = true
      while isLeft {
        isLeft = false
        for queue in 0..<queues {
          guard let id = try next(queue) else { continue }
          try settle(id)
          isLeft = true
        }
      }
    }

    func runFirst() throws -> UInt64 {
      guard let id = try next(0) else { throw EngineFailure("nothing waits") }
      let begun = Clock.now()
      try settle(id)
      return begun
    }

    /// Measures start times by polling every 100 ms, as goqite does.
    func startTimes(_ count: Int) throws -> [UInt64] {
      try (0..<count).map { number in
        // The commit is made at varying times between two polls.
        let look = Clock.now() + 100_000_000
        usleep(UInt32(number * 37_000 % 100_000))
        try enqueue(1, queues: 1, first: number, sync: false)
        let committed = Clock.now()
        while Clock.now() < look { usleep(UInt32(min(1_000, (look - min(look, Clock.now())) / 1_000 + 1))) }
        guard let id = try next(0) else { throw EngineFailure("the message is not there") }
        let begun = Clock.now()
        try settle(id)
        return begun - committed
      }
    }

    private func waiting() throws -> (count: Int, largestQueue: Int) {
      defer { count.reset() }
      guard try count.step() else { return (0, 0) }
      return (count.integer(0), count.integer(1))
    }

    func countWaiting() throws -> Int { try waiting().count }
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
