/// Instances by an index of one optional field, whose arguments are of the type that it wraps: of `OneToOneIndex(\.isbn)`
/// with `isbn: String?` the call `books.load(isbn, from: \.isbn, in: tx)` takes a `String`. Rows without a value are in no
/// range of these; `load(nil, from: \.isbn, in: tx)` gives them.
///
/// All else is as with the calls that take the field's own type.
extension Store where Format: StoreFormat {
  /// The instance with a value of a unique index of one optional field; nil where no instance has it.
  public func load<Index: UniqueStoreIndex, Wrapped: KeyCodable>(
    _ value: Wrapped, from index: KeyPath<Format, Index>, in tx: ReadTransaction
  ) throws -> Instance? where Index.Value == Compound<Wrapped?> {
    try access.first(IndexLook(value: Wrapped?.some(value), index), tx)
  }

  /// The instances with a value of an index of one optional field.
  public func load<Index: StoreIndex, Wrapped: KeyCodable>(
    _ value: Wrapped, from index: KeyPath<Format, Index>, descending: Bool = false, limit: Int? = nil,
    in tx: ReadTransaction
  ) throws -> StoreCursor<Instance> where Index.Value == Compound<Wrapped?> {
    let look = IndexLook(value: Wrapped?.some(value), index, descending: descending, limit: limit)
    return StoreCursor(tx, try access.begin(look, tx))
  }

  /// The instances whose values of an index of one optional field are in a range.
  public func load<Index: StoreIndex, Wrapped: KeyCodable>(
    _ range: some KeyBounds<Wrapped>, from index: KeyPath<Format, Index>, descending: Bool = false, limit: Int? = nil,
    in tx: ReadTransaction
  ) throws -> StoreCursor<Instance> where Index.Value == Compound<Wrapped?> {
    let look = IndexLook(KeyInterval(ofValues: range), index, descending: descending, limit: limit)
    return StoreCursor(tx, try access.begin(look, tx))
  }

  /// How many instances have a value of an index of one optional field.
  public func count<Index: StoreIndex, Wrapped: KeyCodable>(
    _ value: Wrapped, from index: KeyPath<Format, Index>, in tx: ReadTransaction
  ) throws -> Int where Index.Value == Compound<Wrapped?> {
    try access.count(IndexLook(value: Wrapped?.some(value), index), tx)
  }

  /// How many instances have values of an index of one optional field in a range.
  public func count<Index: StoreIndex, Wrapped: KeyCodable>(
    _ range: some KeyBounds<Wrapped>, from index: KeyPath<Format, Index>, in tx: ReadTransaction
  ) throws -> Int where Index.Value == Compound<Wrapped?> {
    try access.count(IndexLook(KeyInterval(ofValues: range), index), tx)
  }

  // MARK: - By itself

  /// The instance with a value of a unique index of one optional field; nil where no instance has it.
  public func load<Index: UniqueStoreIndex, Wrapped: KeyCodable>(
    _ value: Wrapped, from index: KeyPath<Format, Index>
  ) async throws -> Instance? where Index.Value == Compound<Wrapped?> {
    let look = IndexLook(value: Wrapped?.some(value), index)
    return try await database.look(in: access.name) { tx in try access.first(look, tx) }
  }

  /// The instances with a value of an index of one optional field.
  public func load<Index: StoreIndex, Wrapped: KeyCodable>(
    _ value: Wrapped, from index: KeyPath<Format, Index>, descending: Bool = false, limit: Int? = nil
  ) -> Rows<Instance> where Index.Value == Compound<Wrapped?> {
    rows(IndexLook(value: Wrapped?.some(value), index, descending: descending, limit: limit))
  }

  /// The instances whose values of an index of one optional field are in a range.
  public func load<Index: StoreIndex, Wrapped: KeyCodable>(
    _ range: some KeyBounds<Wrapped>, from index: KeyPath<Format, Index>, descending: Bool = false, limit: Int? = nil
  ) -> Rows<Instance> where Index.Value == Compound<Wrapped?> {
    rows(IndexLook(KeyInterval(ofValues: range), index, descending: descending, limit: limit))
  }

  /// How many instances have a value of an index of one optional field.
  public func count<Index: StoreIndex, Wrapped: KeyCodable>(
    _ value: Wrapped, from index: KeyPath<Format, Index>
  ) async throws -> Int where Index.Value == Compound<Wrapped?> {
    let look = IndexLook(value: Wrapped?.some(value), index)
    return try await database.read { tx in try access.count(look, tx) }
  }

  /// How many instances have values of an index of one optional field in a range.
  public func count<Index: StoreIndex, Wrapped: KeyCodable>(
    _ range: some KeyBounds<Wrapped>, from index: KeyPath<Format, Index>
  ) async throws -> Int where Index.Value == Compound<Wrapped?> {
    let look = IndexLook(KeyInterval(ofValues: range), index)
    return try await database.read { tx in try access.count(look, tx) }
  }
}

extension KeyInterval {
  /// The same range of an optional field. It begins after the rows without a value.
  fileprivate init<Wrapped: KeyCodable>(ofValues range: some KeyBounds<Wrapped>) where Bound == Wrapped? {
    let lower = range.lowerKey.map { range.includesLowerKey ? End.including($0) : .excluding($0) }
    let upper = range.upperKey.map { range.includesUpperKey ? End.including($0) : .excluding($0) }
    self.init(from: lower ?? .excluding(nil), to: upper ?? .unbounded)
  }
}
