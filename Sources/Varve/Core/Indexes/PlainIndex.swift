/// An index in which a value may have many instances, by one field or several: `StoreFormat.Index`.
public struct PlainIndex<Instance, each Part: KeyCodable>: StoreIndex {
  /// The values of the parts.
  public typealias Value = Compound<repeat each Part>
  /// What the index keeps of each instance.
  public var declaration: IndexDeclaration<Instance>

  /// An index by stored properties.
  ///
  /// - Parameters:
  ///   - path: The fields. Several make a compound value, sorted by the first, then by the second.
  ///   - prefix: How many bytes the index keeps of the last field, which is a text or data then: to the end of the character
  ///     there. Values that differ after them are found by reading their rows. Default: all of it.
  ///   - name: The name on disk. Default: that of the property; who renames that gives the old name here, or the index is
  ///     built again.
  ///   - version: To be raised where the same paths find other values: a computed property has changed. An index of
  ///     computed properties has to have one.
  ///   - skipsInvalid: Whether instances whose value can't be a key, because it is a NaN, are left out. Otherwise such an
  ///     instance is refused: `.invalidKey`.
  ///   - condition: What an instance has to fulfil to be in the index.
  public init(
    _ path: repeat any KeyPath<Instance, each Part> & Sendable, prefix: Int? = nil, name: String? = nil,
    version: Int = 0, skipsInvalid: Bool = false, where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil
  ) {
    var fields: [IndexField<Instance>] = []
    for path in repeat each path { fields.append(IndexField(path)) }
    if !fields.isEmpty { fields[fields.count - 1].prefix = prefix.map { KeyPrefix(size: $0) } }
    declaration = IndexDeclaration(
      .plain, fields: fields,
      IndexOptions(name: name, version: version, skipsInvalid: skipsInvalid, condition: condition?(Fields())))
  }

  /// An index by fields in the spelling of queries: `Index({ $0.home.city })`, also where `home` is optional, and
  /// `Index({ $0.shelf }, { $0.year.descending })`.
  public init(
    prefix: Int? = nil, name: String? = nil, version: Int = 0, skipsInvalid: Bool = false,
    where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil,
    _ field: repeat (Fields<Instance>) -> Field<Instance, each Part>
  ) {
    var fields: [IndexField<Instance>] = []
    for field in repeat each field { fields.append(IndexField(field(Fields()))) }
    if !fields.isEmpty { fields[fields.count - 1].prefix = prefix.map { KeyPrefix(size: $0) } }
    declaration = IndexDeclaration(
      .plain, fields: fields,
      IndexOptions(name: name, version: version, skipsInvalid: skipsInvalid, condition: condition?(Fields())))
  }
}
