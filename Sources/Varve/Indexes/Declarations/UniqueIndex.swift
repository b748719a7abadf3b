/// An index of one field or several, in which a value has one instance: `StoreFormat.OneToOneIndex`.
///
/// A second instance with the value of another is refused by the call that would store it, which throws `.notUnique`
/// and changes nothing. A value with a part that is nil is not unique.
public struct UniqueIndex<Instance, each Part: KeyCodable>: UniqueStoreIndex {
  /// The values of the parts.
  public typealias Value = Compound<repeat each Part>
  /// The declaration of the index.
  public var declaration: IndexDeclaration<Instance>

  /// Creates an index of stored properties.
  ///
  /// With `deferred`, two instances may have the same value within a transaction, and the commit throws if they still
  /// do. The other parameters are those of ``PlainIndex``.
  public init(
    _ path: repeat any KeyPath<Instance, each Part> & Sendable, name: String? = nil, version: Int = 0,
    counted: Bool = false, deferred: Bool = false, skipsInvalid: Bool = false,
    where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil
  ) {
    var fields: [IndexField<Instance>] = []
    for path in repeat each path { fields.append(IndexField(path)) }
    declaration = IndexDeclaration(
      .oneToOne, fields: fields,
      IndexOptions(
        name: name, version: version, isDeferred: deferred, isCounted: counted, skipsInvalid: skipsInvalid,
        condition: condition?(Fields()))
    )
  }

  /// Creates an index of fields in the spelling of queries.
  public init(
    name: String? = nil, version: Int = 0, counted: Bool = false, deferred: Bool = false, skipsInvalid: Bool = false,
    where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil,
    _ field: repeat (Fields<Instance>) -> Field<Instance, each Part>
  ) {
    var fields: [IndexField<Instance>] = []
    for field in repeat each field { fields.append(IndexField(field(Fields()))) }
    declaration = IndexDeclaration(
      .oneToOne, fields: fields,
      IndexOptions(
        name: name, version: version, isDeferred: deferred, isCounted: counted, skipsInvalid: skipsInvalid,
        condition: condition?(Fields()))
    )
  }
}
