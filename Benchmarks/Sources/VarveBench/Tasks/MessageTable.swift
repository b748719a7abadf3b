#if SQLite || GRDB
  import Foundation

  /// The table and the statements of a task queue in SQLite, which are the same with its C API and with GRDB.
  ///
  /// They are those of goqite: a table of messages, and an index of queue, priority and time. To receive is an update
  /// of the first message that is due, which returns it, and to settle is a delete. Integers replace goqite's texts. A
  /// message that was received and not settled is due again after five seconds.
  enum MessageTable {
    /// The milliseconds after which a message that was not settled is due again.
    static let timeout = 5_000
    /// The microseconds between two polls of a queue without messages that are due.
    static let pollInterval: UInt32 = 100_000

    static let create = """
      CREATE TABLE IF NOT EXISTS goqite (
        id INTEGER PRIMARY KEY, created INTEGER NOT NULL, queue INTEGER NOT NULL, body BLOB NOT NULL,
        timeout INTEGER NOT NULL, received INTEGER NOT NULL DEFAULT 0, priority INTEGER NOT NULL DEFAULT 0
      ) STRICT;
      CREATE INDEX IF NOT EXISTS goqiteQueue ON goqite (queue, priority DESC, created);
      """
    static let send = "INSERT INTO goqite (created, queue, body, timeout) VALUES (?, ?, ?, ?)"
    static let receive = """
      UPDATE goqite SET timeout = ?1 + \(timeout), received = received + 1 WHERE id = (
        SELECT id FROM goqite WHERE queue = ?2 AND timeout <= ?1 AND received < 3
        ORDER BY priority DESC, created LIMIT 1
      ) RETURNING id, body, received
      """
    static let remove = "DELETE FROM goqite WHERE id = ?"
    static let count = "SELECT count(*), coalesce(max(queue), 0) FROM goqite"

    /// Returns the time in milliseconds, by a clock that all processes share.
    static func now() -> Int { Int(Clock.now() / 1_000_000) }
  }

  /// A message that was received.
  struct ReceivedMessage {
    var id: Int
    /// How many times it was received.
    var attempt: Int
  }

  /// A task queue in a table of SQLite.
  protocol MessageTableEngine: TaskEngine {
    /// Sets whether commits survive a power loss.
    func use(sync: Bool) throws
    /// Inserts messages in one transaction, into the queues in turn, that are due after some milliseconds.
    func insert(_ count: Int, queues: Int, first: Int, delay: Int) throws
    /// Receives the next message of a queue, and checks its size. Returns `nil` if none is due.
    func next(_ queue: Int) throws -> ReceivedMessage?
    func settle(_ id: Int) throws
    /// Returns the number of messages, and the largest number of a queue.
    func waiting() throws -> (count: Int, largestQueue: Int)
  }

  extension MessageTableEngine {
    func enqueue(_ count: Int, queues: Int, first: Int, sync: Bool) throws {
      try use(sync: sync)
      try insert(count, queues: queues, first: first, delay: 0)
    }

    func enqueueLater(_ count: Int, first: Int) throws {
      try insert(count, queues: 1, first: first, delay: 86_400_000)
    }

    /// Runs the tasks by one worker, because SQLite has one writer: more workers would wait for each other.
    func runAll(_ count: Int, workers: Int, isSerial: Bool) throws {
      let queues = try waiting().largestQueue + 1
      var isLeft = true
      while isLeft {
        isLeft = false
        for queue in 0..<queues {
          guard let message = try next(queue) else { continue }
          try settle(message.id)
          isLeft = true
        }
      }
    }

    /// Measures start times by polling every 100 ms, as goqite does.
    func startTimes(_ count: Int) throws -> [UInt64] {
      try (0..<count).map { number in
        // The commit is made at varying times between two polls.
        let look = Clock.now() + UInt64(MessageTable.pollInterval) * 1_000
        usleep(UInt32(number * 37_000 % 100_000))
        try enqueue(1, queues: 1, first: number, sync: false)
        let committed = Clock.now()
        while Clock.now() < look { usleep(UInt32(min(1_000, (look - min(look, Clock.now())) / 1_000 + 1))) }
        guard let message = try next(0) else { throw EngineFailure("the message is not there") }
        let begun = Clock.now()
        try settle(message.id)
        return begun - committed
      }
    }

    func startEndless(_ count: Int) throws {
      let queues = try waiting().largestQueue + 1
      for number in 0..<count {
        guard try next(number % queues) != nil else { throw EngineFailure("too few messages wait") }
      }
    }

    /// Runs the messages of the first queue until one is received again. Until its timeout has passed, others run.
    func runFirstOrphan() throws -> UInt64 {
      let limit = Clock.now() + 60_000_000_000
      while Clock.now() < limit {
        guard let message = try next(0) else {
          usleep(MessageTable.pollInterval)
          continue
        }
        let begun = Clock.now()
        try settle(message.id)
        if message.attempt > 1 { return begun }
      }
      throw EngineFailure("no message was received again")
    }

    func countWaiting() throws -> Int { try waiting().count }
  }
#endif
