/// An index in which a value has one instance, by one field or several: `StoreFormat.OneToOneIndex`.
///
/// A second instance with a value that another has is refused by the call that would make it: `.notUnique`, and the call
/// has changed nothing. A value with a part that is nil is not unique.
public struct UniqueIndex<Instance, each Part: KeyCodable>: UniqueStoreIndex {
  /// The values of the parts.
  public typealias Value = Compound<repeat each Part>
  /// What the index keeps of each instance.
  public var declaration: IndexDeclaration<Instance>

  /// An index by stored properties. `deferred`: two instances may have one value within a transaction, and it is the
  /// commit that throws where they still do. The other parameters are those of ``PlainIndex``.
  public init(
    _ path: repeat any KeyPath<Instance, each Part> & Sendable, name: String? = nil, version: Int = 0,
    deferred: Bool = false, skipsInvalid: Bool = false,
    where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil
  ) {
    var fields: [IndexField<Instance>] = []
    for path in repeat each path { fields.append(IndexField(path)) }
    declaration = IndexDeclaration(
      .oneToOne, fields: fields,
      IndexOptions(
        name: name, version: version, isDeferred: deferred, skipsInvalid: skipsInvalid, condition: condition?(Fields()))
    )
  }

  /// An index by fields in the spelling of queries.
  public init(
    name: String? = nil, version: Int = 0, deferred: Bool = false, skipsInvalid: Bool = false,
    where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil,
    _ field: repeat (Fields<Instance>) -> Field<Instance, each Part>
  ) {
    var fields: [IndexField<Instance>] = []
    for field in repeat each field { fields.append(IndexField(field(Fields()))) }
    declaration = IndexDeclaration(
      .oneToOne, fields: fields,
      IndexOptions(
        name: name, version: version, isDeferred: deferred, skipsInvalid: skipsInvalid, condition: condition?(Fields()))
    )
  }
}
