extension Database {
  /// Reads one row or number of a collection for a task of this module: on the calling thread if memory has the answer,
  /// and otherwise like any other read. A hop to another thread and back takes ten times as long as the read itself.
  ///
  /// `body` may run twice, which is why closures of the program are not read this way.
  func readMemoryFirst<Result: Sendable>(
    in collection: String, _ body: @Sendable (ReadTransaction) throws -> Result
  ) async throws -> Result {
    if let result = try core.readAtOnce(collection, body) { return result }
    return try await read(body)
  }
}
