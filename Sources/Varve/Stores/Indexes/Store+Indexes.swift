/// Loads instances by an index of the format: `books.load(.value("Emma"), from: \.title, in: tx)`. Without `in: tx`, a
/// call is a transaction of its own.
///
/// Instances are in the order of the index, and those with the same value in the order of their identifiers; with
/// `descending`, both orders are reversed. An instance with several values in the range is returned once, at the first
/// of them. A call in a transaction sees its writes; methods that return ``Rows`` show the database as of the call.
///
/// Each method throws `.notReady` while the index is built, `.notUnique` for a unique index that was built over
/// instances with the same value, `.unknownExtension` if the database was opened without the format,
/// `.invalidDefinition` for a path that is not a stored property of the format, `.invalidKey`, and `.invalidArgument`
/// for a negative limit. Complexity: one seek, and for each instance an entry and a read, or only an entry for a
/// `@Direct` index. Counting reads rows only for an index with prefixes of values.
extension Store where Format: StoreFormat {
  /// Returns the instance with a value of a unique index, or nil if there is none.
  public func load<Index: UniqueStoreIndex>(
    _ value: IndexValue<Index.Value>, from index: KeyPath<Format, Index>, in tx: ReadTransaction
  ) throws -> Instance? {
    try access.first(IndexSelection(value.values, index), tx)
  }

  /// Returns the instances with some values.
  public func load<Index: StoreIndex>(
    _ values: IndexValues<Index.Value>, from index: KeyPath<Format, Index>, descending: Bool = false,
    limit: Int? = nil, in tx: ReadTransaction
  ) throws -> StoreCursor<Instance> {
    StoreCursor(tx, try access.begin(IndexSelection(values, index, descending: descending, limit: limit), tx))
  }

  /// Returns the number of instances with some values. Complexity: O(log n) for a counted index, and otherwise O(n) in
  /// these.
  public func count<Index: StoreIndex>(
    _ values: IndexValues<Index.Value>, from index: KeyPath<Format, Index>, in tx: ReadTransaction
  ) throws -> Int {
    try access.count(IndexSelection(values, index), tx)
  }

  // MARK: - In a transaction of its own

  /// Returns the instance with a value of a unique index, or nil if there is none.
  public func load<Index: UniqueStoreIndex>(
    _ value: IndexValue<Index.Value>, from index: KeyPath<Format, Index>
  ) async throws -> Instance? {
    let selection = IndexSelection(value.values, index)
    return try await database.readMemoryFirst(in: access.name) { tx in try access.first(selection, tx) }
  }

  /// Returns the instances with some values.
  public func load<Index: StoreIndex>(
    _ values: IndexValues<Index.Value>, from index: KeyPath<Format, Index>, descending: Bool = false,
    limit: Int? = nil
  ) -> Rows<Instance> {
    let selection = IndexSelection(values, index, descending: descending, limit: limit)
    return Rows(RowSource(database.core) { [access] tx in try access.begin(selection, tx) })
  }

  /// Returns the number of instances with some values. Complexity: O(log n) for a counted index, and otherwise O(n) in
  /// these.
  public func count<Index: StoreIndex>(
    _ values: IndexValues<Index.Value>, from index: KeyPath<Format, Index>
  ) async throws -> Int {
    let selection = IndexSelection(values, index)
    return try await database.read { tx in try access.count(selection, tx) }
  }
}
