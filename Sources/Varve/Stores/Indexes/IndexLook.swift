/// Which entries of an index a call of a store is about.
struct IndexLook<Format: StoreFormat>: Sendable {
  private let slot: Result<Int, any Error>
  private let bounds: Result<(lower: [UInt8], upper: [UInt8]?), any Error>
  var isDescending = false
  var limit: Int?

  /// What is wrong with the arguments is thrown by `begin` and `count`.
  init<Index: StoreIndex>(_ path: KeyPath<Format, Index>, descending: Bool = false, limit: Int? = nil) {
    slot = Result { try FormatIndexes<Format>.found().slot(of: path) }
    bounds = .success(([], nil))
    isDescending = descending
    self.limit = limit
  }

  /// Of the values of a range.
  init<Index: StoreIndex, Bound: KeyCodable>(
    _ range: some KeyBounds<Bound>, _ path: KeyPath<Format, Index>, descending: Bool = false, limit: Int? = nil
  ) {
    slot = Result { try FormatIndexes<Format>.found().slot(of: path) }
    bounds = Result { try KeyBeginning(with: range).bounds() }
    isDescending = descending
    self.limit = limit
  }

  /// Of one value, or of those that begin with it.
  init<Index: StoreIndex, Value: KeyCodable>(
    value: Value, _ path: KeyPath<Format, Index>, descending: Bool = false, limit: Int? = nil
  ) {
    let range = KeyInterval(from: .including(value), to: .including(value))
    self.init(range, path, descending: descending, limit: limit)
  }

  /// The index, and the range of its entries. Throws `.invalidArgument`, `.invalidKey`, `.notReady`, `.notUnique`,
  /// `.unknownExtension`.
  func part(
    _ indexes: IndexesTransaction<Format.Instance>
  ) throws -> (part: Part, declaration: IndexDeclaration<Format.Instance>, range: StorageRange) {
    if let limit, limit < 0 {
      throw DatabaseError(.invalidArgument, "the limit is \(limit); it must not be negative")
    }
    let slot = try slot.get()
    let (lower, upper) = try bounds.get()
    let part = try indexes.readable(slot)
    return (part, indexes.definition.indexes[slot].declaration, StorageRange(lower: lower, upper: upper))
  }
}
