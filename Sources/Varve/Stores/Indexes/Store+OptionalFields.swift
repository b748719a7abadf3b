/// Loads instances by an index of one optional field, with arguments of the wrapped type: for `OneToOneIndex(\.isbn)`
/// with `isbn: String?`, the call `books.load(isbn, from: \.isbn, in: tx)` takes a `String`. Rows without a value are
/// in none of these ranges; `load(nil, from: \.isbn, in: tx)` returns them.
///
/// Otherwise the methods behave like those that take the field's own type.
extension Store where Format: StoreFormat {
  /// Returns the instance with a value of a unique index of one optional field, or nil if no instance has it.
  public func load<Index: UniqueStoreIndex, Wrapped: KeyCodable>(
    _ value: Wrapped, from index: KeyPath<Format, Index>, in tx: ReadTransaction
  ) throws -> Instance? where Index.Value == Compound<Wrapped?> {
    try access.first(IndexSelection(value: Wrapped?.some(value), index), tx)
  }

  /// Returns the instances with a value of an index of one optional field.
  public func load<Index: StoreIndex, Wrapped: KeyCodable>(
    _ value: Wrapped, from index: KeyPath<Format, Index>, descending: Bool = false, limit: Int? = nil,
    in tx: ReadTransaction
  ) throws -> StoreCursor<Instance> where Index.Value == Compound<Wrapped?> {
    let selection = IndexSelection(value: Wrapped?.some(value), index, descending: descending, limit: limit)
    return StoreCursor(tx, try access.begin(selection, tx))
  }

  /// Returns the instances whose values of an index of one optional field are in a range.
  public func load<Index: StoreIndex, Wrapped: KeyCodable>(
    _ range: some KeyBounds<Wrapped>, from index: KeyPath<Format, Index>, descending: Bool = false, limit: Int? = nil,
    in tx: ReadTransaction
  ) throws -> StoreCursor<Instance> where Index.Value == Compound<Wrapped?> {
    let selection = IndexSelection(KeyInterval(ofValues: range), index, descending: descending, limit: limit)
    return StoreCursor(tx, try access.begin(selection, tx))
  }

  /// Returns the number of instances with a value of an index of one optional field.
  public func count<Index: StoreIndex, Wrapped: KeyCodable>(
    _ value: Wrapped, from index: KeyPath<Format, Index>, in tx: ReadTransaction
  ) throws -> Int where Index.Value == Compound<Wrapped?> {
    try access.count(IndexSelection(value: Wrapped?.some(value), index), tx)
  }

  /// Returns the number of instances whose values of an index of one optional field are in a range.
  public func count<Index: StoreIndex, Wrapped: KeyCodable>(
    _ range: some KeyBounds<Wrapped>, from index: KeyPath<Format, Index>, in tx: ReadTransaction
  ) throws -> Int where Index.Value == Compound<Wrapped?> {
    try access.count(IndexSelection(KeyInterval(ofValues: range), index), tx)
  }

  // MARK: - In a transaction of its own

  /// Returns the instance with a value of a unique index of one optional field, or nil if no instance has it.
  public func load<Index: UniqueStoreIndex, Wrapped: KeyCodable>(
    _ value: Wrapped, from index: KeyPath<Format, Index>
  ) async throws -> Instance? where Index.Value == Compound<Wrapped?> {
    let selection = IndexSelection(value: Wrapped?.some(value), index)
    return try await database.readMemoryFirst(in: access.name) { tx in try access.first(selection, tx) }
  }

  /// Returns the instances with a value of an index of one optional field.
  public func load<Index: StoreIndex, Wrapped: KeyCodable>(
    _ value: Wrapped, from index: KeyPath<Format, Index>, descending: Bool = false, limit: Int? = nil
  ) -> Rows<Instance> where Index.Value == Compound<Wrapped?> {
    rows(IndexSelection(value: Wrapped?.some(value), index, descending: descending, limit: limit))
  }

  /// Returns the instances whose values of an index of one optional field are in a range.
  public func load<Index: StoreIndex, Wrapped: KeyCodable>(
    _ range: some KeyBounds<Wrapped>, from index: KeyPath<Format, Index>, descending: Bool = false, limit: Int? = nil
  ) -> Rows<Instance> where Index.Value == Compound<Wrapped?> {
    rows(IndexSelection(KeyInterval(ofValues: range), index, descending: descending, limit: limit))
  }

  /// Returns the number of instances with a value of an index of one optional field.
  public func count<Index: StoreIndex, Wrapped: KeyCodable>(
    _ value: Wrapped, from index: KeyPath<Format, Index>
  ) async throws -> Int where Index.Value == Compound<Wrapped?> {
    let selection = IndexSelection(value: Wrapped?.some(value), index)
    return try await database.read { tx in try access.count(selection, tx) }
  }

  /// Returns the number of instances whose values of an index of one optional field are in a range.
  public func count<Index: StoreIndex, Wrapped: KeyCodable>(
    _ range: some KeyBounds<Wrapped>, from index: KeyPath<Format, Index>
  ) async throws -> Int where Index.Value == Compound<Wrapped?> {
    let selection = IndexSelection(KeyInterval(ofValues: range), index)
    return try await database.read { tx in try access.count(selection, tx) }
  }
}

extension KeyInterval {
  /// Creates the range of an optional field from a range of its wrapped type. It begins after the rows without a value.
  fileprivate init<Wrapped: KeyCodable>(ofValues range: some KeyBounds<Wrapped>) where Bound == Wrapped? {
    let lower = range.lowerKey.map { range.includesLowerKey ? End.including($0) : .excluding($0) }
    let upper = range.upperKey.map { range.includesUpperKey ? End.including($0) : .excluding($0) }
    self.init(from: lower ?? .excluding(nil), to: upper ?? .unbounded)
  }
}
