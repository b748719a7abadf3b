#if SQLite
  import CSQLite
  import Foundation

  /// SQLite through its C API; its settings are those of `SQLiteSettings`.
  ///
  /// Every statement is prepared once and reused. Texts and blobs are bound without a copy (`SQLITE_STATIC`), and
  /// columns are read without a copy. The connection is opened without a mutex, because one thread uses it, and SQLite
  /// keeps no statistics of its memory, as its documentation advises for speed. One insert or read is a single
  /// statement, several are between `BEGIN` and `COMMIT`. There is no asynchronous API: `objectinsertasync` calls the
  /// synchronous one from the task, whose thread it blocks; several tasks take turns by a lock, for which a single task
  /// never waits.
  final class SQLiteObjects: ObjectEngine, @unchecked Sendable {
    // Unchecked: only the row's single thread uses the connection, or one task at a time.
    private let connection: SQLiteConnection

    static var version: String { "SQLite \(String(cString: sqlite3_libversion()))\(SQLiteSettings.note)" }
    static func fileUse(_ name: String) -> FileUse { SQLiteSettings.fileUse(name) }

    init(path: String, settings: EngineSettings) throws {
      connection = try SQLiteConnection(path: SQLiteSettings.createDirectory(path, settings))
      for pragma in SQLiteSettings.pragmas(settings) { try connection.execute(pragma) }
      try connection.execute(SQLiteSettings.createTable)
      for sql in SQLiteSettings.createIndexes(settings.indexes ?? .none) { try connection.execute(sql) }
    }

    func buildIndexes() throws {
      for sql in SQLiteSettings.createIndexes(.two) { try connection.execute(sql) }
    }

    func makeSession(sync: Bool) throws -> SQLiteObjectSession {
      try connection.execute(SQLiteSettings.synchronous(sync))
      return try SQLiteObjectSession(connection)
    }

    func compact() throws { try connection.execute("VACUUM") }

    /// Runs a checkpoint, which is SQLite's only deferred work.
    func waitForCompaction() throws -> UInt64 {
      try connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
      return 0
    }

    func counters() -> EngineCounters { EngineCounters(countsTableBytes: false) }
    func close() throws { try connection.close() }
  }

  final class SQLiteObjectSession: ObjectSession {
    private let connection: SQLiteConnection
    private let begin, commit, insert, selectOne, selectMany, selectAll: SQLiteStatement
    private let selectDates, selectByDate, countByDate: SQLiteStatement
    private var sink = 0
    private let turn = NSLock()

    init(_ connection: SQLiteConnection) throws {
      self.connection = connection
      begin = try connection.prepare("BEGIN")
      commit = try connection.prepare("COMMIT")
      insert = try connection.prepare("INSERT INTO book (\(SQLiteSettings.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
      selectOne = try connection.prepare(SQLiteSettings.selectOne)
      selectMany = try connection.prepare(
        SQLiteSettings.selectMany(ObjectWorker<SQLiteObjectSession>.idsPerBatch))
      selectAll = try connection.prepare(SQLiteSettings.selectAll)
      selectDates = try connection.prepare(SQLiteSettings.selectDates)
      selectByDate = try connection.prepare(SQLiteSettings.selectByDate)
      countByDate = try connection.prepare(SQLiteSettings.countByDate)
    }

    func insert(_ count: Int, _ next: () -> Book) throws {
      try transaction(count) {
        for _ in 0..<count { try insert(next()) }
      }
    }

    func insertSuspended(_ book: Book) async throws { try turn.withLock { try insert(book) } }

    private func insert(_ book: Book) throws {
      var book = book
      try withUnsafeBytes(of: book.id.uuid) { id in
        try book.title.withUTF8 { title in
          try book.author.withUTF8 { author in
            try book.summary.withUTF8 { summary in
              insert.bind(1, blob: id)
              insert.bind(2, text: title)
              insert.bind(3, text: author)
              insert.bind(4, text: summary)
              insert.bind(5, book.year)
              insert.bind(6, book.price)
              insert.bind(7, book.updated.timeIntervalSinceReferenceDate)
              insert.bind(8, book.isRead ? 1 : 0)
              try insert.run()
            }
          }
        }
      }
    }

    func read(_ count: Int, _ next: () -> UUID) throws -> Int {
      try read(count, next) { sink &+= Self.book(selectOne).touched }
    }

    func readRaw(_ count: Int, _ next: () -> UUID) throws -> Int {
      try read(count, next) { touch(selectOne) }
    }

    @inline(__always)
    private func read(_ count: Int, _ next: () -> UUID, _ body: () -> Void) throws -> Int {
      var found = 0
      try transaction(count) {
        for _ in 0..<count {
          let isFound = try withUnsafeBytes(of: next().uuid) { id in
            selectOne.bind(1, blob: id)
            defer { selectOne.reset() }
            guard try selectOne.step() else { return false }
            body()
            return true
          }
          if isFound { found += 1 }
        }
      }
      return found
    }

    func readSuspended(_ id: UUID) async throws -> Bool { try read(1) { id } == 1 }

    func readBatch(_ ids: [UUID]) throws -> Int {
      try ids.withUnsafeBytes { bytes in
        for index in ids.indices {
          let id = UnsafeRawBufferPointer(rebasing: bytes[(index * 16)..<(index * 16 + 16)])
          selectMany.bind(Int32(index + 1), blob: id)
        }
        defer { selectMany.reset() }
        var found = 0
        while try selectMany.step() {
          touch(selectMany)
          found += 1
        }
        return found
      }
    }

    func scan(_ body: () -> Bool) throws {
      defer { selectAll.reset() }
      while try selectAll.step() {
        sink &+= Self.book(selectAll).touched
        guard body() else { return }
      }
    }

    func find(_ count: Int, direct: Bool, _ next: () -> UUID) throws -> Int {
      var found = 0
      for _ in 0..<count { found += try read(1) { next() } }
      return found
    }

    func scanDates(from date: Date, count: Int) throws -> Int {
      try forEach(selectDates, date, count) { sink &+= Int(truncatingIfNeeded: selectDates.double(0).bitPattern) }
    }

    func readByDate(from date: Date, count: Int, direct: Bool) throws -> Int {
      try forEach(selectByDate, date, count) { sink &+= Self.book(selectByDate).touched }
    }

    private func forEach(_ statement: SQLiteStatement, _ date: Date, _ count: Int, _ body: () -> Void) throws -> Int {
      statement.bind(1, date.timeIntervalSinceReferenceDate)
      statement.bind(2, count)
      defer { statement.reset() }
      var found = 0
      while try statement.step() {
        body()
        found += 1
      }
      return found
    }

    func countDates(from date: Date) throws -> Int {
      countByDate.bind(1, date.timeIntervalSinceReferenceDate)
      defer { countByDate.reset() }
      return try countByDate.step() ? countByDate.integer(0) : 0
    }

    func count() throws -> Int {
      let statement = try connection.prepare("SELECT count(*) FROM book")
      defer { statement.finalize() }
      return try statement.step() ? statement.integer(0) : 0
    }

    func book(_ id: UUID) throws -> Book? {
      try withUnsafeBytes(of: id.uuid) { id in
        selectOne.bind(1, blob: id)
        defer { selectOne.reset() }
        return try selectOne.step() ? Self.book(selectOne) : nil
      }
    }

    func close() {
      for statement in [
        begin, commit, insert, selectOne, selectMany, selectAll, selectDates, selectByDate, countByDate,
      ] { statement.finalize() }
    }

    @inline(__always)
    private func transaction(_ count: Int, _ body: () throws -> Void) throws {
      guard count > 1 else { return try body() }
      try begin.run()
      try body()
      try commit.run()
    }

    @inline(__always)
    private static func book(_ row: SQLiteStatement) -> Book {
      Book(
        id: row.uuid(0), title: row.text(1), author: row.text(2), summary: row.text(3), year: row.integer(4),
        price: row.double(5), updated: Date(timeIntervalSinceReferenceDate: row.double(6)), isRead: row.integer(7) != 0)
    }

    /// Reads every column without creating a value.
    @inline(__always)
    private func touch(_ row: SQLiteStatement) {
      for column in Int32(0)..<4 {
        let bytes = row.bytes(column)
        if let base = bytes.baseAddress { sink &+= Int(Touch.bytes(base, bytes.count)) }
      }
      sink &+= row.integer(4) &+ row.integer(7) &+ Int(truncatingIfNeeded: (row.double(5) + row.double(6)).bitPattern)
    }
  }
#endif
