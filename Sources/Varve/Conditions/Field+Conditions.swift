/// Values that a field can be compared with.
public typealias Storable = Hashable & Sendable

// Each operator takes a value of one type on the right, so that the compiler checks long conditions quickly.

extension Field where Value: Storable {
  /// The field has this value; nil equals nil.
  public static func == (field: Self, value: Value) -> Condition<Root> {
    field.condition(.equal(Operand(value)), FieldKeys.some([value])) { $0 == value }
  }

  /// The field has another value, or none.
  public static func != (field: Self, value: Value) -> Condition<Root> { !(field == value) }

  /// The field has one of these values. Of none, the condition never holds.
  public func isIn(_ values: some Sequence<Value>) -> Condition<Root> {
    let values = Set(values)
    return condition(.isIn(Set(values.map { Operand($0) })), FieldKeys.some(values)) { values.contains($0) }
  }
}

extension Field where Value: Storable & Comparable {
  /// The field is less than this value.
  public static func < (field: Self, value: Value) -> Condition<Root> {
    field.comparison(.below(Operand(value), orEqual: false), FieldKeys.below(value, orEqual: false)) { $0 < value }
  }

  /// The field is less than this value, or equal to it.
  public static func <= (field: Self, value: Value) -> Condition<Root> {
    field.comparison(.below(Operand(value), orEqual: true), FieldKeys.below(value, orEqual: true)) { $0 <= value }
  }

  /// The field is greater than this value.
  public static func > (field: Self, value: Value) -> Condition<Root> {
    field.comparison(.above(Operand(value), orEqual: false), FieldKeys.above(value, orEqual: false)) { $0 > value }
  }

  /// The field is greater than this value, or equal to it.
  public static func >= (field: Self, value: Value) -> Condition<Root> {
    field.comparison(.above(Operand(value), orEqual: true), FieldKeys.above(value, orEqual: true)) { $0 >= value }
  }

  /// The field is in a range.
  public func isIn(_ range: ClosedRange<Value>) -> Condition<Root> {
    let (lower, upper) = (range.lowerBound, range.upperBound)
    return comparison(
      .range(Operand(lower), Operand(upper), isClosed: true), FieldKeys.range(lower, upper, isClosed: true)
    ) { range.contains($0) }
  }

  /// The field is in a range.
  public func isIn(_ range: Range<Value>) -> Condition<Root> {
    let (lower, upper) = (range.lowerBound, range.upperBound)
    return comparison(
      .range(Operand(lower), Operand(upper), isClosed: false), FieldKeys.range(lower, upper, isClosed: false)
    ) { range.contains($0) }
  }
}

// MARK: - Optional fields: nil fulfils no comparison

extension Field {
  /// The field has a value, which is less than this one.
  public static func < <Wrapped: Storable & Comparable>(field: Self, value: Wrapped) -> Condition<Root>
  where Value == Wrapped? {
    field.comparison(.below(Operand(value), orEqual: false), FieldKeys.below(value, orEqual: false)) { $0 < value }
  }

  /// The field has a value, which is less than this one or equal to it.
  public static func <= <Wrapped: Storable & Comparable>(field: Self, value: Wrapped) -> Condition<Root>
  where Value == Wrapped? {
    field.comparison(.below(Operand(value), orEqual: true), FieldKeys.below(value, orEqual: true)) { $0 <= value }
  }

  /// The field has a value, which is greater than this one.
  public static func > <Wrapped: Storable & Comparable>(field: Self, value: Wrapped) -> Condition<Root>
  where Value == Wrapped? {
    field.comparison(.above(Operand(value), orEqual: false), FieldKeys.above(value, orEqual: false)) { $0 > value }
  }

  /// The field has a value, which is greater than this one or equal to it.
  public static func >= <Wrapped: Storable & Comparable>(field: Self, value: Wrapped) -> Condition<Root>
  where Value == Wrapped? {
    field.comparison(.above(Operand(value), orEqual: true), FieldKeys.above(value, orEqual: true)) { $0 >= value }
  }

  /// The field has a value in a range.
  public func isIn<Wrapped: Storable & Comparable>(_ range: ClosedRange<Wrapped>) -> Condition<Root>
  where Value == Wrapped? {
    let (lower, upper) = (range.lowerBound, range.upperBound)
    return comparison(
      .range(Operand(lower), Operand(upper), isClosed: true), FieldKeys.range(lower, upper, isClosed: true)
    ) { range.contains($0) }
  }

  /// The field has a value in a range.
  public func isIn<Wrapped: Storable & Comparable>(_ range: Range<Wrapped>) -> Condition<Root>
  where Value == Wrapped? {
    let (lower, upper) = (range.lowerBound, range.upperBound)
    return comparison(
      .range(Operand(lower), Operand(upper), isClosed: false), FieldKeys.range(lower, upper, isClosed: false)
    ) { range.contains($0) }
  }

  /// The field has a list, with this value in it.
  public func contains<Values: Collection & SendableMetatype>(_ element: Values.Element) -> Condition<Root>
  where Value == Values?, Values.Element: Storable {
    condition(.element(Operand(element)), FieldKeys.some([element])) { $0?.contains(element) ?? false }
  }
}

// MARK: - Strings, Booleans, lists

/// A string, or an optional one: what a condition looks for a beginning in.
public protocol QueryableText: Sendable {
  /// Whether a value may be missing.
  static var isOptionalText: Bool { get }
}

extension String: QueryableText {
  /// False.
  public static var isOptionalText: Bool { false }
}

extension Optional: QueryableText where Wrapped == String {
  /// True.
  public static var isOptionalText: Bool { true }
}

extension Field where Value: QueryableText {
  /// The field has a value that begins with a text, by Unicode scalars in normal form C: "e" is not the beginning of "é".
  public func hasPrefix(_ prefix: String) -> Condition<Root> {
    let keys = FieldKeys.prefix(prefix, isOptional: Value.isOptionalText)
    return condition(.prefix(prefix), keys) { FieldKeys.has(keys, $0) }
  }
}

extension Field {
  /// Fields of other types have no beginning: this makes the mistake one error.
  @available(*, unavailable, message: "only a field of text has a prefix")
  @_disfavoredOverload
  public func hasPrefix(_ prefix: String) -> Condition<Root> { condition(.prefix(prefix), nil) { _ in false } }
}

extension Field where Value == String {
  /// The field has a text in it, by characters.
  public func contains(_ text: String) -> Condition<Root> { condition(.substring(text), nil) { $0.contains(text) } }
}

extension Field where Value == String? {
  /// The field has a value with a text in it, by characters.
  public func contains(_ text: String) -> Condition<Root> {
    condition(.substring(text), nil) { $0?.contains(text) ?? false }
  }
}

extension Field where Value == Bool {
  /// The field is true.
  public var isTrue: Condition<Root> { self == true }
}

extension Field where Value: Collection & SendableMetatype, Value.Element: Storable {
  /// The field has this value in it.
  @_disfavoredOverload
  public func contains(_ element: Value.Element) -> Condition<Root> {
    condition(.element(Operand(element)), FieldKeys.some([element])) { $0.contains(element) }
  }
}

// MARK: - Terms

extension Field {
  private func condition(
    _ question: ConditionTerm<Root>.Question, _ keys: KeySet?, _ test: @escaping @Sendable (Value) -> Bool
  ) -> Condition<Root> {
    let field = SendablePath(path: path)
    return Condition(
      ConditionTerm(
        path: fieldPath, question: question, keys: keys, test: { test($0[keyPath: field.path]) },
        key: { FieldKeys.key($0[keyPath: field.path]) }))
  }

  private func comparison(
    _ question: ConditionTerm<Root>.Question, _ keys: KeySet?, _ test: @escaping @Sendable (Value) -> Bool
  ) -> Condition<Root> where Value: Storable {
    // Of strings that are not in normal form, the operator and the keys say different things.
    if let keys, Value.self == String.self { return condition(question, keys) { FieldKeys.has(keys, $0) } }
    return condition(question, keys, test)
  }

  private func comparison<Wrapped: Storable>(
    _ question: ConditionTerm<Root>.Question, _ keys: KeySet?, _ test: @escaping @Sendable (Wrapped) -> Bool
  ) -> Condition<Root> where Value == Wrapped? {
    let keys = keys.map(FieldKeys.wrapped)
    if let keys, Wrapped.self == String.self { return condition(question, keys) { FieldKeys.has(keys, $0) } }
    return condition(question, keys) { $0.map(test) ?? false }
  }
}

/// Unchecked: see `FieldPath`.
private struct SendablePath<Root, Value>: @unchecked Sendable {
  let path: KeyPath<Root, Value>
}
