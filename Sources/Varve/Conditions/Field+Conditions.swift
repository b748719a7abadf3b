// Each operator compares the field with the value as `FieldPath.fitted` returns it: folded, if the field is.
//
// Each operator has a right operand of a single type, so that the compiler checks long conditions quickly.

extension Field where Value: Hashable & Sendable {
  /// Returns the condition that the field has a value; nil equals nil.
  public static func == (field: Self, value: Value) -> Condition<Root> {
    let value = field.fieldPath.fitted(value)
    return field.condition(.equal(Operand(value)), FieldKeys.some([value])) { $0 == value }
  }

  /// Returns the condition that the field has another value, or is nil.
  public static func != (field: Self, value: Value) -> Condition<Root> { !(field == value) }

  /// Returns the condition that the field has one of several values. Without values, it is never fulfilled.
  public func isIn(_ values: some Sequence<Value>) -> Condition<Root> {
    let values = Set(values.map(fieldPath.fitted))
    return condition(.isIn(Set(values.map { Operand($0) })), FieldKeys.some(values)) { values.contains($0) }
  }
}

extension Field where Value: Hashable & Comparable & Sendable {
  /// Returns the condition that the field is less than a value.
  public static func < (field: Self, value: Value) -> Condition<Root> {
    let value = field.fieldPath.fitted(value)
    return field.comparison(.below(Operand(value), orEqual: false), FieldKeys.below(value, orEqual: false)) {
      $0 < value
    }
  }

  /// Returns the condition that the field is less than or equal to a value.
  public static func <= (field: Self, value: Value) -> Condition<Root> {
    let value = field.fieldPath.fitted(value)
    return field.comparison(.below(Operand(value), orEqual: true), FieldKeys.below(value, orEqual: true)) {
      $0 <= value
    }
  }

  /// Returns the condition that the field is greater than a value.
  public static func > (field: Self, value: Value) -> Condition<Root> {
    let value = field.fieldPath.fitted(value)
    return field.comparison(.above(Operand(value), orEqual: false), FieldKeys.above(value, orEqual: false)) {
      $0 > value
    }
  }

  /// Returns the condition that the field is greater than or equal to a value.
  public static func >= (field: Self, value: Value) -> Condition<Root> {
    let value = field.fieldPath.fitted(value)
    return field.comparison(.above(Operand(value), orEqual: true), FieldKeys.above(value, orEqual: true)) {
      $0 >= value
    }
  }

  /// Returns the condition that the field is in a range.
  public func isIn(_ range: ClosedRange<Value>) -> Condition<Root> {
    let (lower, upper) = (fieldPath.fitted(range.lowerBound), fieldPath.fitted(range.upperBound))
    return comparison(
      .range(Operand(lower), Operand(upper), isClosed: true), FieldKeys.range(lower, upper, isClosed: true)
    ) { range.contains($0) }
  }

  /// Returns the condition that the field is in a range.
  public func isIn(_ range: Range<Value>) -> Condition<Root> {
    let (lower, upper) = (fieldPath.fitted(range.lowerBound), fieldPath.fitted(range.upperBound))
    return comparison(
      .range(Operand(lower), Operand(upper), isClosed: false), FieldKeys.range(lower, upper, isClosed: false)
    ) { range.contains($0) }
  }
}

// MARK: - Optional fields: nil fulfills no comparison

extension Field {
  /// Returns the condition that the field is not nil, and less than a value.
  public static func < <Wrapped: Hashable & Comparable & Sendable>(field: Self, value: Wrapped) -> Condition<Root>
  where Value == Wrapped? {
    let value = field.fieldPath.fitted(value)
    return field.comparison(.below(Operand(value), orEqual: false), FieldKeys.below(value, orEqual: false)) {
      $0 < value
    }
  }

  /// Returns the condition that the field is not nil, and less than or equal to a value.
  public static func <= <Wrapped: Hashable & Comparable & Sendable>(field: Self, value: Wrapped) -> Condition<Root>
  where Value == Wrapped? {
    let value = field.fieldPath.fitted(value)
    return field.comparison(.below(Operand(value), orEqual: true), FieldKeys.below(value, orEqual: true)) {
      $0 <= value
    }
  }

  /// Returns the condition that the field is not nil, and greater than a value.
  public static func > <Wrapped: Hashable & Comparable & Sendable>(field: Self, value: Wrapped) -> Condition<Root>
  where Value == Wrapped? {
    let value = field.fieldPath.fitted(value)
    return field.comparison(.above(Operand(value), orEqual: false), FieldKeys.above(value, orEqual: false)) {
      $0 > value
    }
  }

  /// Returns the condition that the field is not nil, and greater than or equal to a value.
  public static func >= <Wrapped: Hashable & Comparable & Sendable>(field: Self, value: Wrapped) -> Condition<Root>
  where Value == Wrapped? {
    let value = field.fieldPath.fitted(value)
    return field.comparison(.above(Operand(value), orEqual: true), FieldKeys.above(value, orEqual: true)) {
      $0 >= value
    }
  }

  /// Returns the condition that the field has a value in a range.
  public func isIn<Wrapped: Hashable & Comparable & Sendable>(_ range: ClosedRange<Wrapped>) -> Condition<Root>
  where Value == Wrapped? {
    let (lower, upper) = (fieldPath.fitted(range.lowerBound), fieldPath.fitted(range.upperBound))
    return comparison(
      .range(Operand(lower), Operand(upper), isClosed: true), FieldKeys.range(lower, upper, isClosed: true)
    ) { range.contains($0) }
  }

  /// Returns the condition that the field has a value in a range.
  public func isIn<Wrapped: Hashable & Comparable & Sendable>(_ range: Range<Wrapped>) -> Condition<Root>
  where Value == Wrapped? {
    let (lower, upper) = (fieldPath.fitted(range.lowerBound), fieldPath.fitted(range.upperBound))
    return comparison(
      .range(Operand(lower), Operand(upper), isClosed: false), FieldKeys.range(lower, upper, isClosed: false)
    ) { range.contains($0) }
  }

  /// Returns the condition that the field has a list that contains a value.
  public func contains<Values: Collection & SendableMetatype>(_ element: Values.Element) -> Condition<Root>
  where Value == Values?, Values.Element: Hashable & Sendable {
    condition(.element(Operand(element)), FieldKeys.some([element])) { $0?.contains(element) ?? false }
  }
}

// MARK: - Strings, lists

/// A string or an optional string, which conditions can test for a prefix.
public protocol QueryableText: Sendable {
  /// Whether the type is optional.
  static var isOptionalText: Bool { get }
}

extension String: QueryableText {
  /// The value is false.
  public static var isOptionalText: Bool { false }
}

extension Optional: QueryableText where Wrapped == String {
  /// The value is true.
  public static var isOptionalText: Bool { true }
}

extension Field where Value: QueryableText {
  /// Returns the condition that the field begins with a text, compared by Unicode scalars in normal form C: "e" is not
  /// a prefix of "é".
  public func hasPrefix(_ prefix: String) -> Condition<Root> {
    let prefix = fieldPath.fitted(prefix)
    let keys = FieldKeys.prefix(prefix, isOptional: Value.isOptionalText)
    return condition(.prefix(prefix), keys) { FieldKeys.has(keys, $0) }
  }
}

extension Field where Value == String {
  /// Returns the condition that the field contains a text, compared by characters. No index serves it.
  public func contains(_ text: String) -> Condition<Root> {
    let text = fieldPath.fitted(text)
    return condition(.substring(text), nil) { $0.contains(text) }
  }

  /// Returns the condition that the field ends with a text, compared by characters. No index serves it.
  public func hasSuffix(_ suffix: String) -> Condition<Root> {
    let suffix = fieldPath.fitted(suffix)
    return condition(.suffix(suffix), nil) { $0.hasSuffix(suffix) }
  }
}

extension Field where Value == String? {
  /// Returns the condition that the field is not nil and contains a text, compared by characters. No index serves it.
  public func contains(_ text: String) -> Condition<Root> {
    let text = fieldPath.fitted(text)
    return condition(.substring(text), nil) { $0?.contains(text) ?? false }
  }

  /// Returns the condition that the field is not nil and ends with a text, compared by characters. No index serves it.
  public func hasSuffix(_ suffix: String) -> Condition<Root> {
    let suffix = fieldPath.fitted(suffix)
    return condition(.suffix(suffix), nil) { $0?.hasSuffix(suffix) ?? false }
  }
}

extension Field where Value: Collection & SendableMetatype, Value.Element: Hashable & Sendable {
  /// Returns the condition that the field's list contains a value.
  @_disfavoredOverload
  public func contains(_ element: Value.Element) -> Condition<Root> {
    condition(.element(Operand(element)), FieldKeys.some([element])) { $0.contains(element) }
  }
}

// MARK: - Terms

extension Field {
  private func condition(
    _ comparison: ConditionTerm<Root>.Comparison, _ keys: KeySet?, _ test: @escaping @Sendable (Value) -> Bool
  ) -> Condition<Root> {
    let field = SendablePath(path: path)
    return Condition(
      ConditionTerm(
        path: fieldPath, comparison: comparison, keys: keys, test: { test($0[keyPath: field.path]) },
        key: { FieldKeys.key($0[keyPath: field.path]) }))
  }

  private func comparison(
    _ comparison: ConditionTerm<Root>.Comparison, _ keys: KeySet?, _ test: @escaping @Sendable (Value) -> Bool
  ) -> Condition<Root> where Value: Hashable & Sendable {
    // For strings that are not in normal form, the operator and the keys have different results, so the keys are used.
    if let keys, Value.self == String.self { return condition(comparison, keys) { FieldKeys.has(keys, $0) } }
    return condition(comparison, keys, test)
  }

  private func comparison<Wrapped: Hashable & Sendable>(
    _ comparison: ConditionTerm<Root>.Comparison, _ keys: KeySet?, _ test: @escaping @Sendable (Wrapped) -> Bool
  ) -> Condition<Root> where Value == Wrapped? {
    let keys = keys.map(FieldKeys.wrapped)
    if let keys, Wrapped.self == String.self { return condition(comparison, keys) { FieldKeys.has(keys, $0) } }
    return condition(comparison, keys) { $0.map(test) ?? false }
  }
}

/// A key path whose `Sendable` conformance is not checked: see `FieldPath`.
struct SendablePath<Root, Value>: @unchecked Sendable {
  let path: KeyPath<Root, Value>
}
