#if GRDB
  import Foundation
  import GRDB

  /// A record as GRDB's documentation defines it for a `Codable` type.
  ///
  /// Dates are seconds, because the default is text with milliseconds, which is slower and not exact.
  extension Book: FetchableRecord, PersistableRecord {
    static var databaseTableName: String { "book" }

    static func databaseDateEncodingStrategy(for column: String) -> DatabaseDateEncodingStrategy {
      .timeIntervalSinceReferenceDate
    }

    static func databaseDateDecodingStrategy(for column: String) -> DatabaseDateDecodingStrategy {
      .timeIntervalSinceReferenceDate
    }
  }

  /// GRDB over the system's SQLite; its settings are those of `SQLiteSettings`.
  ///
  /// It uses a `DatabaseQueue`, because the workloads have one thread. Inserts are `insert(db)` of the record, whose
  /// statement GRDB keeps prepared; reads by id use the queue's cached statement with an argument, which saves the
  /// creation of a request. Writes are `write`, each a transaction, and reads are `read`, which isolates them in a
  /// transaction too.
  final class GRDBObjects: ObjectEngine {
    private let queue: DatabaseQueue

    static var version: String { "GRDB 7.10.0\(SQLiteSettings.note)" }
    static func fileUse(_ name: String) -> FileUse { SQLiteSettings.fileUse(name) }

    /// Opens the database in a directory, with the settings of `SQLiteSettings`.
    static func open(_ path: String, _ settings: EngineSettings) throws -> DatabaseQueue {
      var configuration = Configuration()
      configuration.journalMode = .wal
      configuration.prepareDatabase { database in
        for pragma in SQLiteSettings.pragmas(settings) { try database.execute(sql: pragma) }
      }
      return try DatabaseQueue(
        path: SQLiteSettings.createDirectory(path, settings), configuration: configuration)
    }

    init(path: String, settings: EngineSettings) throws {
      queue = try Self.open(path, settings)
      try queue.write { database in
        try database.execute(sql: SQLiteSettings.createTable)
        for sql in SQLiteSettings.createIndexes(settings.indexes ?? .none) { try database.execute(sql: sql) }
      }
    }

    func buildIndexes() throws {
      try queue.write { database in
        for sql in SQLiteSettings.createIndexes(.two) { try database.execute(sql: sql) }
      }
    }

    func makeSession(sync: Bool) throws -> GRDBObjectSession {
      try queue.writeWithoutTransaction { database in try database.execute(sql: SQLiteSettings.synchronous(sync)) }
      return GRDBObjectSession(queue)
    }

    func compact() throws { try queue.vacuum() }

    /// Runs a checkpoint, which is SQLite's only deferred work.
    func waitForCompaction() throws -> UInt64 {
      _ = try queue.writeWithoutTransaction { database in try database.checkpoint(.truncate) }
      return 0
    }

    func counters() -> EngineCounters { EngineCounters(countsTableBytes: false) }
    func close() throws { try queue.close() }
  }

  final class GRDBObjectSession: ObjectSession {
    private let queue: DatabaseQueue
    private let selectMany = SQLiteSettings.selectMany(ObjectWorker<GRDBObjectSession>.idsPerBatch)
    private var sink = 0

    init(_ queue: DatabaseQueue) { self.queue = queue }

    func insert(_ count: Int, _ next: () -> Book) throws {
      try queue.write { database in
        for _ in 0..<count { try next().insert(database) }
      }
    }

    func insertSuspended(_ book: Book) async throws {
      try await queue.write { database in try book.insert(database) }
    }

    func read(_ count: Int, _ next: () -> UUID) throws -> Int {
      try queue.read { database in
        var found = 0
        let statement = try database.cachedStatement(sql: SQLiteSettings.selectOne)
        for _ in 0..<count {
          guard let book = try Book.fetchOne(statement, arguments: [next()]) else { continue }
          sink &+= book.touched
          found += 1
        }
        return found
      }
    }

    func readSuspended(_ id: UUID) async throws -> Bool {
      let book = try await queue.read { database in
        try Book.fetchOne(database.cachedStatement(sql: SQLiteSettings.selectOne), arguments: [id])
      }
      sink &+= book?.touched ?? 0
      return book != nil
    }

    func readRaw(_ count: Int, _ next: () -> UUID) throws -> Int {
      try queue.read { database in
        var found = 0
        let statement = try database.cachedStatement(sql: SQLiteSettings.selectOne)
        for _ in 0..<count {
          let rows = try GRDB.Row.fetchCursor(statement, arguments: [next()])
          guard let row = try rows.next() else { continue }
          try touch(row)
          found += 1
        }
        return found
      }
    }

    func readBatch(_ ids: [UUID]) throws -> Int {
      try queue.read { database in
        var found = 0
        let statement = try database.cachedStatement(sql: selectMany)
        let rows = try GRDB.Row.fetchCursor(statement, arguments: StatementArguments(ids))
        while let row = try rows.next() {
          try touch(row)
          found += 1
        }
        return found
      }
    }

    func scan(_ body: () -> Bool) throws {
      try queue.read { database in
        let books = try Book.fetchCursor(database, sql: SQLiteSettings.selectAll)
        while let book = try books.next() {
          sink &+= book.touched
          guard body() else { return }
        }
      }
    }

    func find(_ count: Int, direct: Bool, _ next: () -> UUID) throws -> Int {
      var found = 0
      for _ in 0..<count {
        let id = next()
        let book = try queue.read { database in
          try Book.fetchOne(database.cachedStatement(sql: SQLiteSettings.selectOne), arguments: [id])
        }
        sink &+= book?.touched ?? 0
        found += book == nil ? 0 : 1
      }
      return found
    }

    func scanDates(from date: Date, count: Int) throws -> Int {
      try queue.read { database in
        let statement = try database.cachedStatement(sql: SQLiteSettings.selectDates)
        let dates = try Double.fetchCursor(statement, arguments: [date.timeIntervalSinceReferenceDate, count])
        var found = 0
        while let date = try dates.next() {
          sink &+= Int(truncatingIfNeeded: date.bitPattern)
          found += 1
        }
        return found
      }
    }

    func readByDate(from date: Date, count: Int, direct: Bool) throws -> Int {
      try queue.read { database in
        let statement = try database.cachedStatement(sql: SQLiteSettings.selectByDate)
        let books = try Book.fetchCursor(statement, arguments: [date.timeIntervalSinceReferenceDate, count])
        var found = 0
        while let book = try books.next() {
          sink &+= book.touched
          found += 1
        }
        return found
      }
    }

    func countDates(from date: Date) throws -> Int {
      try queue.read { database in
        let statement = try database.cachedStatement(sql: SQLiteSettings.countByDate)
        return try Int.fetchOne(statement, arguments: [date.timeIntervalSinceReferenceDate]) ?? 0
      }
    }

    func count() throws -> Int { try queue.read { database in try Book.fetchCount(database) } }

    func book(_ id: UUID) throws -> Book? {
      try queue.read { database in
        try Book.fetchOne(database.cachedStatement(sql: SQLiteSettings.selectOne), arguments: [id])
      }
    }

    func close() {}

    /// Reads every column without a copy, and creates no string.
    private func touch(_ row: GRDB.Row) throws {
      for column in 0..<4 {
        try row.withUnsafeData(atIndex: column) { data in
          data?.withUnsafeBytes { bytes in
            if let base = bytes.baseAddress { sink &+= Int(Touch.bytes(base, bytes.count)) }
          }
        }
      }
      let year: Int = row[4]
      let price: Double = row[5]
      let updated: Double = row[6]
      let isRead: Bool = row[7]
      sink &+= year &+ (isRead ? 1 : 0) &+ Int(truncatingIfNeeded: (price + updated).bitPattern)
    }
  }
#endif
