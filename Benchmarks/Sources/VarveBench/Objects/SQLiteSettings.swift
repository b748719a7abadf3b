#if SQLite || GRDB
  import Foundation

  /// The table and the settings of SQLite, which are the same with its C API and with GRDB.
  ///
  /// - WAL with `synchronous = NORMAL`: a commit survives the death of the process and is not synced; the log is synced
  ///   before a checkpoint writes the database, so that a power loss removes only the last commits. That is what
  ///   Varve's `.process` guarantees. With `OFF`, a power loss may damage the database, which no engine here may; it
  ///   saves SQLite a sync per checkpoint (`VARVE_BENCH_SQLITE=off` shows the gain). `--sync` is `FULL`.
  /// - `cache_size` is `--cache-mb`. `wal_autocheckpoint` is `--memtable-mb` in pages, the write buffer of the others:
  ///   its default of 4 MB would write each page of a random insert far more often.
  /// - `secure_delete` off: Debian compiles it on, other builds don't.
  /// - Columns, one index: the primary key, beside rows by row id, as most tables are. With
  ///   `VARVE_BENCH_SQLITE=clustered` the table is `WITHOUT ROWID`: rows are stored in the order of their keys, as
  ///   Varve's are. Its inserts by random key cost twice as much here, its scan a half to a third, its reads by id
  ///   three quarters.
  /// - Dates are seconds as REAL, UUIDs blobs of 16 bytes: exact, and the fastest forms.
  enum SQLiteSettings {
    private static let variant = ProcessInfo.processInfo.environment["VARVE_BENCH_SQLITE"] ?? ""
    private static let pageSize = 4096

    static let fileName = "books.sqlite"
    static let columnCount = 8
    static let columns = "id, title, author, summary, year, price, updated, isRead"

    static var note: String { variant.isEmpty ? "" : ", \(variant)" }

    static let createTable = """
      CREATE TABLE IF NOT EXISTS book (
        id BLOB NOT NULL PRIMARY KEY, title TEXT NOT NULL, author TEXT NOT NULL, summary TEXT NOT NULL,
        year INTEGER NOT NULL, price REAL NOT NULL, updated REAL NOT NULL, isRead INTEGER NOT NULL
      )\(variant == "clustered" ? " WITHOUT ROWID" : "")
      """

    static let selectOne = "SELECT \(columns) FROM book WHERE id = ?"
    static let selectAll = "SELECT \(columns) FROM book ORDER BY id"

    static let selectDates = "SELECT updated FROM book WHERE updated >= ? ORDER BY updated LIMIT ?"
    static let selectByDate = "SELECT \(columns) FROM book WHERE updated >= ? ORDER BY updated LIMIT ?"
    static let countByDate = "SELECT count(*) FROM book WHERE updated >= ?"

    static func createIndexes(_ indexes: BookIndexes) -> [String] {
      indexes.columns.map { "CREATE INDEX IF NOT EXISTS \($0.name) ON book (\($0.columns))" }
    }

    static func selectMany(_ count: Int) -> String {
      "SELECT \(columns) FROM book WHERE id IN (\(Array(repeating: "?", count: count).joined(separator: ",")))"
    }

    /// Returns the pragmas for each connection that is opened.
    static func pragmas(_ settings: EngineSettings) -> [String] {
      [
        "PRAGMA page_size = \(pageSize)",
        "PRAGMA journal_mode = WAL",
        "PRAGMA cache_size = -\(settings.cacheBytes >> 10)",
        "PRAGMA wal_autocheckpoint = \(max(settings.memtableBytes / pageSize, 1))",
        "PRAGMA secure_delete = OFF",
      ]
    }

    static func synchronous(_ sync: Bool) -> String {
      "PRAGMA synchronous = \(sync ? "FULL" : variant == "off" ? "OFF" : "NORMAL")"
    }

    static func fileUse(_ name: String) -> FileUse {
      if name == fileName { return .table }
      return name.hasSuffix("-wal") ? .log : .other
    }

    static func createDirectory(_ path: String, _ settings: EngineSettings) throws -> String {
      let file = path + "/" + fileName
      if !settings.createIfMissing, !FileManager.default.fileExists(atPath: file) {
        throw EngineFailure("there is no \(file)")
      }
      try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
      return file
    }
  }
#endif
