extension Database {
  /// A read of this module's for a task, of one row or number of a collection: where it is called if memory has the
  /// answer, else as any read. A hop to another thread and back takes ten times as long as the look.
  ///
  /// `body` may be run twice, which is why closures of the program are not read so.
  func look<Result: Sendable>(
    in collection: String, _ body: @Sendable (ReadTransaction) throws -> Result
  ) async throws -> Result {
    if let result = try core.readAtOnce(collection, body) { return result }
    return try await read(body)
  }
}
