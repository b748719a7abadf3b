/// Loads instances by an index of the format: `try await books.load("Emma", from: \.title)`. Each call is a transaction
/// of its own.
///
/// Instances are in the order of the index, and those with the same value in the order of their identifiers; with
/// `descending`, both orders are reversed. An instance with several values in the range is returned once, at the first
/// of them. Methods that return ``Rows`` show the database as of the call.
///
/// Each method throws `.notReady` while the index is built, `.notUnique` for a unique index that was built over
/// instances with the same value, `.unknownExtension` if the database was opened without the format,
/// `.invalidDefinition` for a path that is not a stored property of the format, `.invalidKey`, and `.invalidArgument`
/// for a negative limit. Complexity: one seek, and for each instance an entry and a read, or only an entry for a
/// `@Direct` index.
extension Store where Format: StoreFormat {
  // MARK: - One value

  /// Returns the instance with a value of a unique index, or nil if there is none.
  public func load<Index: UniqueStoreIndex>(
    _ value: Index.Value, from index: KeyPath<Format, Index>
  ) async throws -> Instance? {
    let selection = IndexSelection(value: value, index)
    return try await database.readMemoryFirst(in: access.name) { tx in try access.first(selection, tx) }
  }

  /// Returns the instance with a value of a unique index of one field, or nil if there is none.
  public func load<Index: UniqueStoreIndex, Value>(
    _ value: Value, from index: KeyPath<Format, Index>
  ) async throws -> Instance? where Index.Value == Compound<Value> {
    let selection = IndexSelection(value: value, index)
    return try await database.readMemoryFirst(in: access.name) { tx in try access.first(selection, tx) }
  }

  /// Returns the instances with a value.
  public func load<Index: StoreIndex>(
    _ value: Index.Value, from index: KeyPath<Format, Index>, descending: Bool = false, limit: Int? = nil
  ) -> Rows<Instance> {
    rows(IndexSelection(value: value, index, descending: descending, limit: limit))
  }

  /// Returns the instances with a value of an index of one field.
  public func load<Index: StoreIndex, Value>(
    _ value: Value, from index: KeyPath<Format, Index>, descending: Bool = false, limit: Int? = nil
  ) -> Rows<Instance> where Index.Value == Compound<Value> {
    rows(IndexSelection(value: value, index, descending: descending, limit: limit))
  }

  // MARK: - Several values

  /// Returns all instances of the index: `books.load(..., from: \.title)`.
  public func load<Index: StoreIndex>(
    _ all: UnboundedRange, from index: KeyPath<Format, Index>, descending: Bool = false, limit: Int? = nil
  ) -> Rows<Instance> {
    rows(IndexSelection(index, descending: descending, limit: limit))
  }

  /// Returns the instances whose values are in a range.
  public func load<Index: StoreIndex>(
    _ range: some KeyBounds<Index.Value>, from index: KeyPath<Format, Index>, descending: Bool = false,
    limit: Int? = nil
  ) -> Rows<Instance> {
    rows(IndexSelection(range, index, descending: descending, limit: limit))
  }

  /// Returns the instances whose values of an index of one field are in a range: `"A"..<"B"`.
  public func load<Index: StoreIndex, Value: KeyCodable>(
    _ range: some KeyBounds<Value>, from index: KeyPath<Format, Index>, descending: Bool = false, limit: Int? = nil
  ) -> Rows<Instance> where Index.Value == Compound<Value> {
    rows(IndexSelection(range, index, descending: descending, limit: limit))
  }

  /// Returns the instances whose values begin with one: `load(prefix: 1999, from: \.byYear)` for an index by year and
  /// title.
  public func load<Index: StoreIndex, First: KeyCodable, each Other: KeyCodable>(
    prefix: First, from index: KeyPath<Format, Index>, descending: Bool = false, limit: Int? = nil
  ) -> Rows<Instance> where Index.Value == Compound<First, repeat each Other> {
    rows(IndexSelection(value: prefix, index, descending: descending, limit: limit))
  }

  // MARK: - Counting

  /// Returns the number of instances with a value. Complexity: O(n) in these; rows are only read for an index with
  /// prefixes of values.
  public func count<Index: StoreIndex>(
    _ value: Index.Value, from index: KeyPath<Format, Index>
  ) async throws -> Int {
    let selection = IndexSelection(value: value, index)
    return try await database.read { tx in try access.count(selection, tx) }
  }

  /// Returns the number of instances with a value of an index of one field.
  public func count<Index: StoreIndex, Value>(
    _ value: Value, from index: KeyPath<Format, Index>
  ) async throws -> Int where Index.Value == Compound<Value> {
    let selection = IndexSelection(value: value, index)
    return try await database.read { tx in try access.count(selection, tx) }
  }

  /// Returns the number of instances in the index.
  public func count<Index: StoreIndex>(
    _ all: UnboundedRange, from index: KeyPath<Format, Index>
  ) async throws -> Int {
    let selection = IndexSelection(index)
    return try await database.read { tx in try access.count(selection, tx) }
  }

  /// Returns the number of instances whose values are in a range.
  public func count<Index: StoreIndex>(
    _ range: some KeyBounds<Index.Value>, from index: KeyPath<Format, Index>
  ) async throws -> Int {
    let selection = IndexSelection(range, index)
    return try await database.read { tx in try access.count(selection, tx) }
  }

  /// Returns the number of instances whose values of an index of one field are in a range.
  public func count<Index: StoreIndex, Value: KeyCodable>(
    _ range: some KeyBounds<Value>, from index: KeyPath<Format, Index>
  ) async throws -> Int where Index.Value == Compound<Value> {
    let selection = IndexSelection(range, index)
    return try await database.read { tx in try access.count(selection, tx) }
  }

  /// Returns the number of instances whose values begin with one.
  public func count<Index: StoreIndex, First: KeyCodable, each Other: KeyCodable>(
    prefix: First, from index: KeyPath<Format, Index>
  ) async throws -> Int where Index.Value == Compound<First, repeat each Other> {
    let selection = IndexSelection(value: prefix, index)
    return try await database.read { tx in try access.count(selection, tx) }
  }

  func rows(_ selection: IndexSelection<Format>) -> Rows<Instance> {
    Rows(RowSource(database.core) { [access] tx in try access.begin(selection, tx) })
  }
}
