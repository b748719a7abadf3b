/// Connections read and write items of ``Persistable`` types as databases do.
extension Connection: DatabaseWriter {
  /// Changes the database, as `Database.write`. An instant that is held stays.
  public func write<Result: Sendable>(
    label: String? = nil, durability: StorageDurability? = nil,
    _ body: @Sendable (WriteTransaction) throws -> Result
  ) async throws -> Result {
    try await Database(core).write(label: label, durability: durability, body)
  }
}
