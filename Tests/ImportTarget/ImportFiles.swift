#if SQLite
  import CVarveSQLite
  import Foundation

  /// Files as GRDB and Core Data create them.
  enum ImportFiles {
    static func make(in folder: String) throws {
      try makeNotes(folder + "/grdb.sqlite")
      try makeBooks(folder + "/coredata.sqlite")
    }

    /// Writes the columns of a GRDB migration and the values that GRDB records write: dates as text in UTC, UUIDs as
    /// 16 bytes, Booleans as integers, and values with fields as JSON.
    private static func makeNotes(_ path: String) throws {
      let file = try SQLiteFile(path)
      try file.run(
        """
        CREATE TABLE "grdb_migrations" ("identifier" TEXT NOT NULL PRIMARY KEY);
        CREATE TABLE "note" (
          "id" BLOB PRIMARY KEY NOT NULL, "title" TEXT NOT NULL, "isPinned" BOOLEAN NOT NULL DEFAULT 0,
          "createdAt" DATETIME NOT NULL, "rating" DOUBLE, "tags" TEXT NOT NULL, "location" TEXT, "picture" BLOB,
          "readCount" INTEGER NOT NULL);
        CREATE TABLE "damaged" ("id" INTEGER PRIMARY KEY AUTOINCREMENT, "createdAt" DATETIME);
        INSERT INTO "damaged" VALUES (1, '2026-02-03 04:05:06.789'), (7, 'yesterday'), (8, NULL);
        CREATE TABLE "twice" ("id" TEXT);
        INSERT INTO "twice" VALUES ('01020304-0506-0708-090a-0b0c0d0e0f10'), ('01020304-0506-0708-090A-0B0C0D0E0F10'), (X'00'),
          (X'0001');
        CREATE VIEW "pinned" AS SELECT "title", "rating" FROM "note" WHERE "isPinned";
        BEGIN
        """)
      let encoder = JSONEncoder()
      for number in 0..<Samples.count {
        let note = Samples.note(number)
        let tags = String(decoding: try encoder.encode(note.tags), as: UTF8.self)
        let location = try note.location.map { String(decoding: try encoder.encode($0), as: UTF8.self) }
        try file.run(
          """
          INSERT INTO "note" VALUES (\(hex(note.id)), '\(note.title)', \(note.isPinned ? 1 : 0),
            strftime('%Y-%m-%d %H:%M:%f', \(note.createdAt.timeIntervalSince1970), 'unixepoch'),
            \(note.rating.map { "\($0)" } ?? "NULL"), '\(tags)', \(location.map { "'\($0)'" } ?? "NULL"),
            \(note.picture.map { hex(Array($0)) } ?? "NULL"), \(note.readCount))
          """)
      }
      try file.run("COMMIT")
    }

    /// Writes the columns of a Core Data entity: names in capitals with the prefix Z, dates as seconds since 2001,
    /// Booleans as integers, and UUIDs as 16 bytes.
    private static func makeBooks(_ path: String) throws {
      let file = try SQLiteFile(path)
      try file.run(
        """
        CREATE TABLE Z_METADATA (Z_VERSION INTEGER PRIMARY KEY, Z_UUID VARCHAR(255), Z_PLIST BLOB);
        CREATE TABLE Z_PRIMARYKEY (Z_ENT INTEGER PRIMARY KEY, Z_NAME VARCHAR, Z_SUPER INTEGER, Z_MAX INTEGER);
        CREATE TABLE ZBOOK (Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, ZISREAD INTEGER, ZADDED TIMESTAMP,
          ZFIRSTNAME VARCHAR, ZTITLE VARCHAR, ZPRICE DECIMAL, ZIDENTIFIER BLOB);
        BEGIN
        """)
      for number in 0..<Samples.count {
        let book = Samples.book(number)
        try file.run(
          """
          INSERT INTO ZBOOK VALUES (\(number), 1, \(number % 3), \(book.isRead ? 1 : 0),
            \(book.added.map { "\($0.timeIntervalSinceReferenceDate)" } ?? "NULL"),
            \(book.firstName.map { "'\($0)'" } ?? "NULL"), \(book.title.map { "'\($0)'" } ?? "NULL"),
            \(book.price.map { "\($0)" } ?? "NULL"), \(hex(book.identifier)))
          """)
      }
      try file.run("COMMIT")
    }

    private static func hex(_ uuid: UUID) -> String {
      hex(uuid.uuidString.split(separator: "-").joined())
    }

    private static func hex(_ bytes: [UInt8]) -> String {
      hex(bytes.map { String(format: "%02x", $0) }.joined())
    }

    private static func hex(_ digits: String) -> String { "X'\(digits)'" }
  }

  /// An SQLite file in which statements are executed. Safe: one thread uses it, and the connection is open as long as
  /// the object lives.
  @safe
  private final class SQLiteFile {
    private var connection: OpaquePointer?

    init(_ path: String) throws {
      guard unsafe sqlite3_open(path, &connection) == SQLITE_OK else { throw TargetError("\(path) can't be made") }
    }

    deinit { unsafe sqlite3_close_v2(connection) }

    func run(_ sql: String) throws {
      guard unsafe sqlite3_exec(connection, sql, nil, nil, nil) == SQLITE_OK else {
        throw TargetError("\(unsafe String(cString: sqlite3_errmsg(connection))): \(sql)")
      }
    }
  }
#endif
