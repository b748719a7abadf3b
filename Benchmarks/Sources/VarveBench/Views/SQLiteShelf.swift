#if SQLite
  import CSQLite
  import Foundation

  /// SQLite with an index by year, title and id, which covers what lists ask for, through its C API, with the settings
  /// of `SQLiteSettings`.
  ///
  /// SQLite keeps no counts: an offset is found by `OFFSET` or `count(*)`, which step over the entries before it, or by
  /// `row_number()`. Each read is a statement.
  final class SQLiteShelf: ShelfEngine, @unchecked Sendable {
    // Unchecked: only the row's single thread uses it.
    private var connection: SQLiteConnection
    private var statements: Statements
    private let path: String
    private let settings: EngineSettings
    private var form: ShelfForm
    private var sink = 0

    static var version: String { SQLiteObjects.version }
    static func fileUse(_ name: String) -> FileUse { SQLiteSettings.fileUse(name) }
    static var reads: [ShelfRead] { ShelfRead.allCases }
    static func keySize(of book: Book) throws -> Int? { nil }

    static func forms(_ workload: Workload) -> [ShelfForm] {
      switch workload {
      case .viewinsert, .viewupdate, .viewdisk: [.rows, .index]
      case .viewchanges, .viewmemory: []
      default: [.index]
      }
    }

    private struct Statements {
      let begin, commit, insert, update, entry, offset, number, group, range, scan: SQLiteStatement

      init(_ connection: SQLiteConnection) throws {
        begin = try connection.prepare("BEGIN")
        commit = try connection.prepare("COMMIT")
        insert = try connection.prepare(
          "INSERT INTO book (\(SQLiteSettings.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
        update = try connection.prepare(ShelfSQL.update)
        entry = try connection.prepare(ShelfSQL.entry)
        offset = try connection.prepare(ShelfSQL.offset)
        number = try connection.prepare(ShelfSQL.number)
        group = try connection.prepare(ShelfSQL.group)
        range = try connection.prepare(ShelfSQL.range)
        scan = try connection.prepare(ShelfSQL.scan)
      }

      var all: [SQLiteStatement] { [begin, commit, insert, update, entry, offset, number, group, range, scan] }
    }

    init(path: String, settings: EngineSettings) throws {
      (self.path, self.settings, form) = (path, settings, settings.shelf)
      (connection, statements) = try Self.open(path, settings, settings.shelf)
    }

    private static func open(
      _ path: String, _ settings: EngineSettings, _ form: ShelfForm
    ) throws -> (SQLiteConnection, Statements) {
      let connection = try SQLiteConnection(path: SQLiteSettings.createDirectory(path, settings))
      for pragma in SQLiteSettings.pragmas(settings) { try connection.execute(pragma) }
      try connection.execute(SQLiteSettings.synchronous(false))
      try connection.execute(SQLiteSettings.createTable)
      if form == .index { try connection.execute(ShelfSQL.createIndex) }
      return (connection, try Statements(connection))
    }

    // MARK: - Writing

    func insert(_ count: Int, _ next: () -> Book) throws {
      try transaction(count) { try bind(next(), statements.insert, idIndex: 1) }
    }

    func update(_ count: Int, _ next: () -> Book) throws {
      try transaction(count) { try bind(next(), statements.update, idIndex: 8) }
    }

    private func transaction(_ count: Int, _ body: () throws -> Void) throws {
      guard count > 1 else { return try body() }
      try statements.begin.run()
      for _ in 0..<count { try body() }
      try statements.commit.run()
    }

    /// Runs a statement whose parameters are the columns in their order, apart from the id.
    private func bind(_ book: Book, _ statement: SQLiteStatement, idIndex: Int32) throws {
      var book = book
      let first: Int32 = idIndex == 1 ? 2 : 1
      try withUnsafeBytes(of: book.id.uuid) { id in
        try book.title.withUTF8 { title in
          try book.author.withUTF8 { author in
            try book.summary.withUTF8 { summary in
              statement.bind(idIndex, blob: id)
              statement.bind(first, text: title)
              statement.bind(first + 1, text: author)
              statement.bind(first + 2, text: summary)
              statement.bind(first + 3, book.year)
              statement.bind(first + 4, book.price)
              statement.bind(first + 5, book.updated.timeIntervalSinceReferenceDate)
              statement.bind(first + 6, book.isRead ? 1 : 0)
              try statement.run()
            }
          }
        }
      }
    }

    func countRows() throws -> Int {
      let statement = try connection.prepare("SELECT count(*) FROM book")
      defer { statement.finalize() }
      return try statement.step() ? statement.integer(0) : 0
    }

    // MARK: - Reading

    func id(at offset: Int, of year: Int) throws -> UUID? {
      let statement = statements.entry
      statement.bind(1, year)
      statement.bind(2, offset)
      defer { statement.reset() }
      return try statement.step() ? statement.uuid(0) : nil
    }

    func offset(of book: Book, byNumbering: Bool) throws -> Int? {
      let statement = byNumbering ? statements.number : statements.offset
      return try withUnsafeBytes(of: book.id.uuid) { id in
        statement.bind(1, blob: id)
        defer { statement.reset() }
        return try statement.step() ? statement.integer(0) : nil
      }
    }

    func count(of year: Int) throws -> Int {
      statements.group.bind(1, year)
      defer { statements.group.reset() }
      return try statements.group.step() ? statements.group.integer(0) : 0
    }

    func count(of year: Int, from title: String) throws -> Int {
      var title = title
      return try title.withUTF8 { title in
        statements.range.bind(1, year)
        statements.range.bind(2, text: title)
        defer { statements.range.reset() }
        return try statements.range.step() ? statements.range.integer(0) : 0
      }
    }

    func scan() throws -> Int {
      defer { statements.scan.reset() }
      var count = 0
      while try statements.scan.step() {
        sink &+= Int(statements.scan.bytes(0).first ?? 0)
        count += 1
      }
      return count
    }

    // MARK: - Opening and building

    func reopen() throws {
      try close()
      (connection, statements) = try Self.open(path, settings, form)
    }

    func build(_ form: ShelfForm, inShadow: Bool) throws -> Bool {
      guard form == .index, !inShadow else { return false }
      try connection.execute(ShelfSQL.createIndex)
      self.form = form
      return true
    }

    func follow(
      _ changes: ShelfChanges, rounds: Int, _ change: @escaping @Sendable (Int) throws -> Void
    ) throws -> [UInt64]? { nil }

    // MARK: - The engine

    func compact() throws { try connection.execute("VACUUM") }

    /// Runs a checkpoint, which is SQLite's only deferred work.
    func waitForCompaction() throws -> UInt64 {
      try connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
      return 0
    }

    func counters() -> EngineCounters { EngineCounters(countsTableBytes: false) }

    func close() throws {
      for statement in statements.all { statement.finalize() }
      try connection.close()
    }
  }
#endif
