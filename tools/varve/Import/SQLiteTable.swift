#if SQLite
  import CVarveSQLite

  /// A table of a SQLite file, read by one statement, so that all rows are of one snapshot.
  ///
  /// Safe: the connection and the statement are open as long as the object exists, and one thread uses it.
  @safe
  final class SQLiteTable: TableSource {
    private let file: String
    private let table: String
    private let connection: OpaquePointer
    private let statement: OpaquePointer
    /// Whether the first column of the statement is the number of the row.
    private let hasNumbers: Bool
    private var position: Int64 = 0

    let columns: [TableColumn]
    let rowCount: Int

    /// Opens a file for reading. Throws if it can't be read, or has no such table or view.
    init(_ file: String, _ table: String) throws {
      self.file = file
      self.table = table
      var opened: OpaquePointer?
      let code = unsafe sqlite3_open_v2(file, &opened, SQLITE_OPEN_READONLY, nil)
      guard code == SQLITE_OK, let handle = unsafe opened else {
        let message = unsafe Self.message(opened, code)
        unsafe sqlite3_close_v2(opened)
        throw ToolError(.cannotOpen, "SQLite can't open the file: \(message)", file: file)
      }
      do {
        // A writer may hold the lock for a short time.
        unsafe sqlite3_busy_timeout(handle, 5_000)
        try unsafe Self.requireTable(table, in: handle, file)
        rowCount = Int(clamping: try unsafe Self.number("SELECT count(*) FROM \(Self.quoted(table))", in: handle, file))
        var prepared = unsafe try? Self.prepare("SELECT rowid, * FROM \(Self.quoted(table))", in: handle, file)
        unsafe hasNumbers = prepared != nil
        // Views and tables WITHOUT ROWID have no rowid.
        if unsafe prepared == nil {
          unsafe prepared = try Self.prepare("SELECT * FROM \(Self.quoted(table))", in: handle, file)
        }
        guard let found = unsafe prepared else { throw ToolError(.cannotOpen, "the table can't be read", file: file) }
        unsafe statement = found
        var columns: [TableColumn] = []
        let columnCount = unsafe sqlite3_column_count(found)
        for index in (hasNumbers ? 1 : 0)..<columnCount {
          columns.append(
            TableColumn(
              name: unsafe sqlite3_column_name(found, index).map { unsafe String(cString: $0) } ?? "",
              declared: unsafe sqlite3_column_decltype(found, index).map { unsafe String(cString: $0) } ?? ""))
        }
        self.columns = columns
      } catch {
        unsafe sqlite3_close_v2(handle)
        throw error
      }
      unsafe connection = handle
    }

    deinit {
      unsafe sqlite3_finalize(statement)
      unsafe sqlite3_close_v2(connection)
    }

    func next() throws -> TableRow? {
      switch unsafe sqlite3_step(statement) {
      case SQLITE_DONE: return nil
      case SQLITE_ROW: break
      case let code:
        throw ToolError(.cannotOpen, "SQLite can't read a row: \(unsafe Self.message(connection, code))", file: file)
      }
      position += 1
      let first: Int32 = hasNumbers ? 1 : 0
      let number = hasNumbers ? unsafe sqlite3_column_int64(statement, 0) : position
      return TableRow(number: number, values: columns.indices.map { value(Int32($0) + first) })
    }

    private func value(_ index: Int32) -> ColumnValue {
      switch unsafe sqlite3_column_type(statement, index) {
      case SQLITE_INTEGER: return .integer(unsafe sqlite3_column_int64(statement, index))
      case SQLITE_FLOAT: return .real(unsafe sqlite3_column_double(statement, index))
      case SQLITE_TEXT:
        // The text is requested before its byte count, so that the count is that of the text in UTF-8.
        let start = unsafe sqlite3_column_text(statement, index)
        let size = Int(unsafe sqlite3_column_bytes(statement, index))
        let bytes = unsafe Array(UnsafeBufferPointer(start: start, count: size))
        return String(validating: bytes, as: UTF8.self).map { .text($0) } ?? .damagedText(bytes)
      case SQLITE_BLOB:
        let start = unsafe sqlite3_column_blob(statement, index)
        let size = Int(unsafe sqlite3_column_bytes(statement, index))
        return .blob(unsafe Array(UnsafeRawBufferPointer(start: start, count: size)))
      default: return .null
      }
    }

    /// Throws if several rows have the same value in the key's column, because one of them would replace the others.
    ///
    /// UUIDs as texts are equal in lower and upper case.
    func requireUnique(_ key: ImportPlan.Field) throws {
      let column = key.column
      var name = Self.quoted(column)
      if key.type == .uuid { name = "CASE typeof(\(name)) WHEN 'text' THEN lower(\(name)) ELSE \(name) END" }
      let sql = "SELECT count(\(name)) - count(DISTINCT \(name)) FROM \(Self.quoted(table))"
      let count = try unsafe Self.number(sql, in: connection, file)
      guard count == 0 else {
        throw ToolError(
          .usage,
          "--key \(column): \(count) rows have the value of another row, and a key belongs to one row", file: file)
      }
    }

    // MARK: - Statements

    private static func quoted(_ name: String) -> String {
      "\"" + name.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\"") + "\""
    }

    private static func message(_ connection: OpaquePointer?, _ code: Int32) -> String {
      let text = unsafe connection != nil ? sqlite3_errmsg(connection) : sqlite3_errstr(code)
      return unsafe text.map { unsafe String(cString: $0) } ?? "error \(code)"
    }

    private static func prepare(_ sql: String, in connection: OpaquePointer, _ file: String) throws -> OpaquePointer {
      var statement: OpaquePointer?
      let code = unsafe sqlite3_prepare_v2(connection, sql, -1, &statement, nil)
      guard code == SQLITE_OK, let made = unsafe statement else {
        throw ToolError(.cannotOpen, "SQLite can't read the file: \(unsafe message(connection, code))", file: file)
      }
      return unsafe made
    }

    private static func number(_ sql: String, in connection: OpaquePointer, _ file: String) throws -> Int64 {
      let statement = try unsafe prepare(sql, in: connection, file)
      defer { unsafe sqlite3_finalize(statement) }
      let code = unsafe sqlite3_step(statement)
      guard code == SQLITE_ROW else {
        throw ToolError(.cannotOpen, "SQLite can't read the file: \(unsafe message(connection, code))", file: file)
      }
      return unsafe sqlite3_column_int64(statement, 0)
    }

    private static func requireTable(_ table: String, in connection: OpaquePointer, _ file: String) throws {
      let sql =
        "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name"
      let statement = try unsafe prepare(sql, in: connection, file)
      defer { unsafe sqlite3_finalize(statement) }
      var names: [String] = []
      while true {
        let code = unsafe sqlite3_step(statement)
        if code == SQLITE_DONE { break }
        guard code == SQLITE_ROW else {
          throw ToolError(.cannotOpen, "SQLite can't read the file: \(unsafe message(connection, code))", file: file)
        }
        names.append(unsafe sqlite3_column_text(statement, 0).map { unsafe String(cString: $0) } ?? "")
      }
      guard names.contains(where: { $0.lowercased() == table.lowercased() }) else {
        let known = names.isEmpty ? "it has none" : "it has " + names.map { "\"\($0)\"" }.joined(separator: ", ")
        throw ToolError(.cannotOpen, "the file has no table or view \"\(table)\"; \(known)", file: file)
      }
    }
  }
#endif
