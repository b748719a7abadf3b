#if PostgreSQL
  import CPostgreSQL
  import Foundation
  import Synchronization

  /// A task queue in PostgreSQL, built like those that run on it: a table, an index of waiting tasks, and workers that
  /// take rows with `FOR UPDATE SKIP LOCKED`.
  ///
  /// Many tasks are enqueued by COPY. Workers of a standard queue take and settle 100 tasks at once, as River's
  /// fetchers and completers do; workers of serial queues take one at a time, in one statement that settles the
  /// previous one as well.
  ///
  /// Durability: a commit survives the death of the server, but not a power loss (`PostgresServer`).
  final class PostgresTaskEngine: TaskEngine, @unchecked Sendable {
    // Unchecked: workloads of one thread use the connection; other threads have their own.
    private let server: PostgresServer
    private let connection: PostgresConnection

    static var version: String { "PostgreSQL \(PQlibVersion() / 10_000), fsync off" }
    static func fileUse(_ name: String) -> FileUse { name.hasPrefix("0000000") ? .log : .table }

    init(path: String, settings: EngineSettings) throws {
      server = try PostgresServer(directory: path)
      connection = try Self.connect(server)
      try connection.execute("SET client_min_messages = warning")
      try connection.execute(
        """
        CREATE TABLE IF NOT EXISTS task (
          id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, queue int NOT NULL, state smallint NOT NULL DEFAULT 0,
          payload text NOT NULL
        );
        CREATE INDEX IF NOT EXISTS task_waiting ON task (queue, id) WHERE state = 0;
        """)
      try connection.prepare("send", "INSERT INTO task (queue, payload) VALUES ($1, $2)")
    }

    private static func connect(_ server: PostgresServer) throws -> PostgresConnection {
      try PostgresConnection(server.connection)
    }

    private static let batch = 100

    /// Returns a worker's connection with the prepared statements `take` and `settle` for many tasks, and `next` for
    /// one.
    private func worker() throws -> PostgresConnection {
      let worker = try Self.connect(server)
      try worker.prepare(
        "take",
        """
        UPDATE task SET state = 1 WHERE id IN (
          SELECT id FROM task WHERE state = 0 ORDER BY queue, id LIMIT \(Self.batch) FOR UPDATE SKIP LOCKED
        ) RETURNING id, payload
        """)
      try worker.prepare("settle", "DELETE FROM task WHERE id = ANY ($1::bigint[])")
      try worker.prepare(
        "next",
        """
        WITH settled AS (DELETE FROM task WHERE id = $2::bigint)
        UPDATE task SET state = 1 WHERE id = (
          SELECT id FROM task WHERE queue = $1::int AND state = 0 ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
        ) RETURNING id, payload
        """)
      return worker
    }

    func enqueue(_ count: Int, queues: Int, first: Int, sync: Bool) throws {
      if sync { throw EngineFailure("the PostgreSQL queue is measured without syncs") }
      if count == 1 {
        let text = String(decoding: TaskText.bytes(first), as: UTF8.self)
        _ = try connection.run("send", ["\(first % max(1, queues))", text])
        return
      }
      var rows: [UInt8] = []
      rows.reserveCapacity(count * (TaskText.size + 8))
      for number in first..<(first + count) {
        rows += "\(number % max(1, queues))\t".utf8
        rows += TaskText.bytes(number)
        rows.append(10)
      }
      try connection.copy("COPY task (queue, payload) FROM STDIN", rows)
    }

    /// The table has no time for a task.
    func enqueueLater(_ count: Int, first: Int) throws {}

    private func check(_ result: PostgresResult, _ row: Int) throws {
      guard result.size(row, 1) == TaskText.size else { throw EngineFailure("a payload has another size") }
    }

    func runAll(_ count: Int, workers: Int, isSerial: Bool) throws {
      let queues = Int(try connection.execute("SELECT coalesce(max(queue), 0) + 1 FROM task").text(0, 0)) ?? 1
      let nextQueue = Atomic(0)
      let failure = Mutex<(any Error)?>(nil)
      WorkerThreads.run(workers) { [self] _ in
        do {
          let worker = try worker()
          defer { worker.close() }
          if !isSerial { return try runMany(worker) }
          while true {
            let queue = nextQueue.add(1, ordering: .relaxed).oldValue
            if queue >= queues { return }
            try runOneByOne(queue, worker)
          }
        } catch { failure.withLock { $0 = error } }
      }
      if let error = failure.withLock({ $0 }) { throw error }
    }

    private func runMany(_ worker: PostgresConnection) throws {
      while true {
        let tasks = try worker.run("take", [])
        if tasks.count == 0 { return }
        for row in 0..<tasks.count { try check(tasks, row) }
        let ids = (0..<tasks.count).map { tasks.text($0, 0) }
        _ = try worker.run("settle", ["{" + ids.joined(separator: ",") + "}"])
      }
    }

    private func runOneByOne(_ queue: Int, _ worker: PostgresConnection) throws {
      var last = "0"
      while true {
        let task = try worker.run("next", ["\(queue)", last])
        if task.count == 0 { return }
        try check(task, 0)
        last = task.text(0, 0)
      }
    }

    func startEndless(_ count: Int) throws {
      try connection.execute(
        """
        UPDATE task SET state = 1 WHERE id IN (
          SELECT id FROM task WHERE state = 0 ORDER BY queue, id LIMIT \(count)
        )
        """)
    }

    /// Makes the tasks that were running ready, and runs the first queue until one of them begins.
    ///
    /// That is only right while a single process runs tasks. Queues that are shared wait until a time limit has passed.
    func runFirstOrphan() throws -> UInt64 {
      let freed = try connection.execute("UPDATE task SET state = 0 WHERE state = 1 RETURNING id")
      let orphans = Set((0..<freed.count).map { freed.text($0, 0) })
      let worker = try worker()
      defer { worker.close() }
      var last = "0"
      while true {
        let task = try worker.run("next", ["0", last])
        let begun = Clock.now()
        guard task.count == 1 else { throw EngineFailure("no task was running") }
        last = task.text(0, 0)
        if orphans.contains(last) { return begun }
      }
    }

    static func killRest(path: String) throws { try PostgresServer.kill(directory: path) }

    /// Measures start times with a worker that listens and is notified by the commit.
    func startTimes(_ count: Int) throws -> [UInt64] {
      let worker = try worker()
      defer { worker.close() }
      try worker.execute("LISTEN task")
      let starts = Mutex<[UInt64]>([])
      let failure = Mutex<(any Error)?>(nil)
      let ready = DispatchSemaphore(value: 0)
      Thread.detachNewThread { [self] in
        do {
          for _ in 0..<count {
            try worker.waitForNotification()
            let task = try worker.run("next", ["0", "0"])
            let begun = Clock.now()
            guard task.count == 1 else { throw EngineFailure("the task is not there") }
            try check(task, 0)
            starts.withLock { $0.append(begun) }
            _ = try worker.run("settle", ["{\(task.text(0, 0))}"])
            ready.signal()
          }
        } catch {
          failure.withLock { $0 = error }
          for _ in 0..<count { ready.signal() }
        }
      }
      var commits: [UInt64] = []
      for number in 0..<count {
        usleep(1_000)
        let text = String(decoding: TaskText.bytes(number), as: UTF8.self)
        try connection.execute("BEGIN; INSERT INTO task (queue, payload) VALUES (0, '\(text)'); NOTIFY task; COMMIT")
        commits.append(Clock.now())
        ready.wait()
        if let error = failure.withLock({ $0 }) { throw error }
      }
      return zip(starts.withLock { $0 }, commits).map { $0 > $1 ? $0 - $1 : 0 }
    }

    func countWaiting() throws -> Int {
      Int(try connection.execute("SELECT count(*) FROM task WHERE state = 0").text(0, 0)) ?? 0
    }

    func compact() throws { try connection.execute("VACUUM FULL task") }

    func waitForCompaction() throws -> UInt64 {
      try connection.execute("VACUUM ANALYZE task")
      try connection.execute("CHECKPOINT")
      return 0
    }

    func counters() -> EngineCounters { EngineCounters(countsTableBytes: false) }

    func close() throws {
      connection.close()
      try server.stop()
    }
  }
#endif
