#if PostgreSQL
  import CPostgreSQL
  import Foundation

  /// A connection of libpq, used by one thread at a time.
  final class PostgresConnection: @unchecked Sendable {
    // Unchecked: only its thread uses it.
    private let handle: OpaquePointer

    init(_ parameters: String) throws {
      guard let handle = PQconnectdb(parameters) else { throw EngineFailure("PostgreSQL: no memory") }
      self.handle = handle
      guard PQstatus(handle) == CONNECTION_OK else { throw failure("connect") }
    }

    private func failure(_ what: String) -> EngineFailure {
      EngineFailure("PostgreSQL: \(String(cString: PQerrorMessage(handle))): \(what.prefix(60))")
    }

    private func check(_ result: OpaquePointer?, _ what: String) throws -> PostgresResult {
      let found = PostgresResult(result)
      switch PQresultStatus(result) {
      case PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_COPY_IN: return found
      default: throw failure(what)
      }
    }

    @discardableResult
    func execute(_ sql: String) throws -> PostgresResult { try check(PQexec(handle, sql), sql) }

    func prepare(_ name: String, _ sql: String) throws { _ = try check(PQprepare(handle, name, sql, 0, nil), sql) }

    /// Runs a prepared statement with parameters as texts, and returns its rows as texts.
    func run(_ name: String, _ parameters: [String]) throws -> PostgresResult {
      let texts = parameters.map { strdup($0) }
      defer { for text in texts { free(text) } }
      let values = texts.map { UnsafePointer<CChar>($0) }
      return try check(
        PQexecPrepared(handle, name, Int32(values.count), values, nil, nil, 0), name)
    }

    /// Writes rows by the COPY statement `sql`.
    func copy(_ sql: String, _ rows: [UInt8]) throws {
      try execute(sql)
      let isSent = rows.withUnsafeBytes { PQputCopyData(handle, $0.characters, Int32($0.count)) == 1 }
      guard isSent, PQputCopyEnd(handle, nil) == 1 else { throw failure("COPY") }
      while let result = PQgetResult(handle) { _ = try check(result, "COPY") }
    }

    /// Waits until a notification is received.
    func waitForNotification() throws {
      while true {
        guard PQconsumeInput(handle) == 1 else { throw failure("notification") }
        if let notification = PQnotifies(handle) { return PQfreemem(notification) }
        var descriptor = pollfd(fd: PQsocket(handle), events: Int16(POLLIN), revents: 0)
        _ = poll(&descriptor, 1, -1)
      }
    }

    func close() { PQfinish(handle) }
  }

  /// The rows of a statement.
  final class PostgresResult {
    private let handle: OpaquePointer?

    fileprivate init(_ handle: OpaquePointer?) { self.handle = handle }
    deinit { PQclear(handle) }

    var count: Int { Int(PQntuples(handle)) }
    func text(_ row: Int, _ column: Int) -> String { String(cString: PQgetvalue(handle, Int32(row), Int32(column))) }
    func size(_ row: Int, _ column: Int) -> Int { Int(PQgetlength(handle, Int32(row), Int32(column))) }
  }
#endif
