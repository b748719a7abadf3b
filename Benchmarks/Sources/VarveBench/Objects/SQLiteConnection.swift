#if SQLite
  import CSQLite
  import Foundation

  /// A connection of SQLite's C API, used by one thread at a time.
  final class SQLiteConnection {
    fileprivate let handle: OpaquePointer

    init(path: String) throws {
      _ = Self.configured
      var handle: OpaquePointer?
      let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
      guard sqlite3_open_v2(path, &handle, flags, nil) == SQLITE_OK, let handle else {
        throw EngineFailure("SQLite can't open \(path)")
      }
      self.handle = handle
    }

    /// Configures SQLite once per process, before the first connection.
    private static let configured = varve_sqlite_without_statistics()

    func execute(_ sql: String) throws {
      guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else { throw failure(sql) }
    }

    func prepare(_ sql: String) throws -> SQLiteStatement {
      var statement: OpaquePointer?
      let flags = UInt32(SQLITE_PREPARE_PERSISTENT)
      guard sqlite3_prepare_v3(handle, sql, -1, flags, &statement, nil) == SQLITE_OK, let statement else {
        throw failure(sql)
      }
      return SQLiteStatement(statement, self)
    }

    func close() throws {
      guard sqlite3_close(handle) == SQLITE_OK else { throw failure("close") }
    }

    fileprivate func failure(_ what: String) -> EngineFailure {
      EngineFailure("SQLite: \(String(cString: sqlite3_errmsg(handle))): \(what.prefix(60))")
    }
  }

  /// A prepared statement. Bound memory must stay valid until the last step.
  struct SQLiteStatement {
    private let handle: OpaquePointer
    private unowned let connection: SQLiteConnection

    fileprivate init(_ handle: OpaquePointer, _ connection: SQLiteConnection) {
      self.handle = handle
      self.connection = connection
    }

    @inline(__always)
    func bind(_ index: Int32, blob: UnsafeRawBufferPointer) {
      sqlite3_bind_blob(handle, index, blob.baseAddress, Int32(blob.count), nil)
    }

    @inline(__always)
    func bind(_ index: Int32, text: UnsafeBufferPointer<UInt8>) {
      text.withMemoryRebound(to: CChar.self) { text in
        _ = sqlite3_bind_text(handle, index, text.baseAddress, Int32(text.count), nil)
      }
    }

    @inline(__always)
    func bind(_ index: Int32, _ number: Int) { sqlite3_bind_int64(handle, index, Int64(number)) }

    @inline(__always)
    func bind(_ index: Int32, _ number: Double) { sqlite3_bind_double(handle, index, number) }

    /// Advances the statement. Returns whether there is another row.
    @inline(__always)
    func step() throws -> Bool {
      switch sqlite3_step(handle) {
      case SQLITE_ROW: return true
      case SQLITE_DONE: return false
      default: throw connection.failure("step")
      }
    }

    @inline(__always)
    func reset() { sqlite3_reset(handle) }

    /// Runs a statement that returns no rows.
    @inline(__always)
    func run() throws {
      defer { reset() }
      _ = try step()
    }

    @inline(__always)
    func bytes(_ column: Int32) -> UnsafeRawBufferPointer {
      let base = sqlite3_column_blob(handle, column)
      return UnsafeRawBufferPointer(start: base, count: Int(sqlite3_column_bytes(handle, column)))
    }

    @inline(__always)
    func text(_ column: Int32) -> String { String(decoding: bytes(column), as: UTF8.self) }

    @inline(__always)
    func uuid(_ column: Int32) -> UUID { UUID(uuid: bytes(column).loadUnaligned(as: uuid_t.self)) }

    @inline(__always)
    func integer(_ column: Int32) -> Int { Int(sqlite3_column_int64(handle, column)) }

    @inline(__always)
    func double(_ column: Int32) -> Double { sqlite3_column_double(handle, column) }

    func finalize() { sqlite3_finalize(handle) }
  }
#endif
