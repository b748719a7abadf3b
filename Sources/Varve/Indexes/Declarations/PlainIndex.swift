/// An index of one field or several, in which a value may have many instances: `StoreFormat.Index`.
public struct PlainIndex<Instance, each Part: KeyCodable>: StoreIndex {
  /// The values of the parts.
  public typealias Value = Compound<repeat each Part>
  /// The declaration of the index.
  public var declaration: IndexDeclaration<Instance>

  /// Creates an index of stored properties.
  ///
  /// - Parameters:
  ///   - path: The fields. Several fields make a compound value, sorted by the first, then by the second.
  ///   - prefix: The number of bytes that the index keeps of the last field, which must be a text or data, extended to
  ///     the end of the character there. Values that differ only after that are distinguished by reading their rows.
  ///     Default: the whole field.
  ///   - name: The name on disk. Default: the name of the property. If the property is renamed, give the old name here;
  ///     otherwise the index is built again.
  ///   - version: A number to raise if the same paths yield other values because a computed property has changed. An
  ///     index of computed properties must have one.
  ///   - counted: Whether the index keeps counts, so that queries of one range of it have offsets, and are counted in
  ///     logarithmic time. Turning it on or off rebuilds no entry.
  ///   - skipsInvalid: Whether instances whose value can't be a key, because it is a NaN, are left out. Otherwise such
  ///     an instance is refused with `.invalidKey`.
  ///   - condition: The condition that an instance must fulfil to be in the index.
  public init(
    _ path: repeat any KeyPath<Instance, each Part> & Sendable, prefix: Int? = nil, name: String? = nil,
    version: Int = 0, counted: Bool = false, skipsInvalid: Bool = false,
    where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil
  ) {
    var fields: [IndexField<Instance>] = []
    for path in repeat each path { fields.append(IndexField(path)) }
    if !fields.isEmpty { fields[fields.count - 1].prefix = prefix.map { KeyPrefix(size: $0) } }
    declaration = IndexDeclaration(
      .plain, fields: fields,
      IndexOptions(
        name: name, version: version, isCounted: counted, skipsInvalid: skipsInvalid,
        condition: condition?(Fields())))
  }

  /// Creates an index of fields in the spelling of queries: `Index({ $0.home.city })`, even if `home` is optional, and
  /// `Index({ $0.shelf }, { $0.year.descending })`.
  public init(
    prefix: Int? = nil, name: String? = nil, version: Int = 0, counted: Bool = false, skipsInvalid: Bool = false,
    where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil,
    _ field: repeat (Fields<Instance>) -> Field<Instance, each Part>
  ) {
    var fields: [IndexField<Instance>] = []
    for field in repeat each field { fields.append(IndexField(field(Fields()))) }
    if !fields.isEmpty { fields[fields.count - 1].prefix = prefix.map { KeyPrefix(size: $0) } }
    declaration = IndexDeclaration(
      .plain, fields: fields,
      IndexOptions(
        name: name, version: version, isCounted: counted, skipsInvalid: skipsInvalid,
        condition: condition?(Fields())))
  }
}
