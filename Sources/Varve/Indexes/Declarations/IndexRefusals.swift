// Fields that can't be parts of an index: each is a single error of the compiler that says what to write. Without these
// initializers, an enumeration with raw values makes the compiler fail to produce a message.

private func refused() -> Never { fatalError("the compiler accepts no call of what is unavailable") }

extension PlainIndex {
  /// Makes an index of a field without keys a compiler error.
  @available(
    *, unavailable,
    message: "a field of an index is KeyCodable, as `enum Kind: String, KeyCodable` is; a list has a ManyToManyIndex"
  )
  @_disfavoredOverload
  public init<each Other>(
    _ path: repeat any KeyPath<Instance, each Other> & Sendable, prefix: Int? = nil, name: String? = nil,
    version: Int = 0, counted: Bool = false, skipsInvalid: Bool = false,
    where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil, keys: (repeat each Part) = ()
  ) { refused() }

  /// Makes an index of a field without keys a compiler error.
  @available(
    *, unavailable,
    message: "a field of an index is KeyCodable, as `enum Kind: String, KeyCodable` is; a list has a ManyToManyIndex"
  )
  @_disfavoredOverload
  public init<each Other>(
    prefix: Int? = nil, name: String? = nil, version: Int = 0, counted: Bool = false, skipsInvalid: Bool = false,
    where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil,
    _ field: repeat (Fields<Instance>) -> Field<Instance, each Other>, keys: (repeat each Part) = ()
  ) { refused() }
}

extension UniqueIndex {
  /// Makes an index of a field without keys a compiler error.
  @available(
    *, unavailable,
    message: "a field of an index is KeyCodable, as `enum Kind: String, KeyCodable` is; a list has a ManyToOneIndex"
  )
  @_disfavoredOverload
  public init<each Other>(
    _ path: repeat any KeyPath<Instance, each Other> & Sendable, name: String? = nil, version: Int = 0,
    counted: Bool = false, deferred: Bool = false, skipsInvalid: Bool = false,
    where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil, keys: (repeat each Part) = ()
  ) { refused() }

  /// Makes an index of a field without keys a compiler error.
  @available(
    *, unavailable,
    message: "a field of an index is KeyCodable, as `enum Kind: String, KeyCodable` is; a list has a ManyToOneIndex"
  )
  @_disfavoredOverload
  public init<each Other>(
    name: String? = nil, version: Int = 0, counted: Bool = false, deferred: Bool = false, skipsInvalid: Bool = false,
    where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil,
    _ field: repeat (Fields<Instance>) -> Field<Instance, each Other>, keys: (repeat each Part) = ()
  ) { refused() }
}

extension ManyValuedIndex where Value == Bool {
  /// Makes an index of elements without keys a compiler error.
  @available(
    *, unavailable, message: "the elements of an indexed list are KeyCodable, as `enum Kind: String, KeyCodable` is"
  )
  @_disfavoredOverload
  public init<Other>(
    _ path: any KeyPath<Instance, Other> & Sendable, name: String? = nil, version: Int = 0,
    counted: Bool = false, skipsInvalid: Bool = false,
    where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil
  ) { refused() }
}

extension ManyValuedUniqueIndex where Value == Bool {
  /// Makes an index of elements without keys a compiler error.
  @available(
    *, unavailable, message: "the elements of an indexed list are KeyCodable, as `enum Kind: String, KeyCodable` is"
  )
  @_disfavoredOverload
  public init<Other>(
    _ path: any KeyPath<Instance, Other> & Sendable, name: String? = nil, version: Int = 0,
    counted: Bool = false, deferred: Bool = false, skipsInvalid: Bool = false,
    where condition: ((Fields<Instance>) -> Condition<Instance>)? = nil
  ) { refused() }
}

extension RowIndex where Value == Bool {
  /// Makes an index of values without keys a compiler error.
  @available(
    *, unavailable, message: "the value of an index is KeyCodable, as `enum Kind: String, KeyCodable` is"
  )
  @_disfavoredOverload
  public init<Other>(
    _ name: String, in collection: String, version: Int, isUnique: Bool = false, isDeferred: Bool = false,
    counted: Bool = false, isDirect: Bool = false, skipsInvalid: Bool = false,
    _ value: @escaping @Sendable (Row) throws -> Other
  ) { refused() }
}
