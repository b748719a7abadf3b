/// The values of a field that has several: a condition on them holds for an instance if one of its values fulfills it.
///
/// ```swift
/// let tagged = Condition<Book> { $0.tags.any.hasPrefix("sea") && !($0.years.any < 1900) }
/// ```
///
/// `$0.tags.any == "a"` and `$0.tags.contains("a")` are the same condition. The values of a field without any, and of
/// one that is nil, fulfill no condition, and `!` is always the opposite: `!($0.years.any < 1900)` holds if no value is
/// less than 1900.
///
/// A field of a value is compared in the same way, `$0.authors.any.name == "Woolf"`, and so is the folded form of a
/// text. An index of the values (`ManyToManyIndex(\.tags)`) serves conditions on the values themselves, and not those
/// on their fields or folded forms.
@dynamicMemberLookup
public struct FieldElement<Root, Value> {
  /// The path of the field that has the values.
  let list: FieldPath
  /// The path from a value of the field to what is compared, or nil for the value itself.
  let inner: FieldPath?
  /// Returns whether one of the values of an instance fulfills a test.
  let isAny: @Sendable (Root, (Value) -> Bool) -> Bool

  /// Returns a field of the values.
  public subscript<Inner>(dynamicMember path: any KeyPath<Value, Inner> & Sendable) -> FieldElement<Root, Inner> {
    let inner = inner.flatMap { inner in
      inner.path.appending(path: path).map { FieldPath(path: $0, components: inner.components + [path]) }
    }
    let isAny = isAny
    return FieldElement<Root, Inner>(list: list, inner: inner ?? FieldPath(path: path)) { root, test in
      isAny(root) { test($0[keyPath: path]) }
    }
  }
}

extension Field where Value: Sequence & SendableMetatype {
  /// The values of the field, for conditions that hold if one of them fulfills it.
  public var any: FieldElement<Root, Value.Element> {
    let field = SendablePath(path: path)
    return FieldElement(list: fieldPath, inner: nil) { root, test in root[keyPath: field.path].contains(where: test) }
  }
}

extension Field where Value: OptionalSequence & SendableMetatype {
  /// The values of the field, for conditions that hold if one of them fulfills it. A field that is nil has none.
  public var any: FieldElement<Root, Value.SequenceElement> {
    let field = SendablePath(path: path)
    return FieldElement(list: fieldPath, inner: nil) { root, test in
      root[keyPath: field.path].containsElement(where: test)
    }
  }
}

/// An optional sequence, whose elements conditions can test.
public protocol OptionalSequence {
  /// The type of the elements.
  associatedtype SequenceElement
  /// Returns whether there is a sequence, and an element of it fulfills a test.
  func containsElement(where test: (SequenceElement) -> Bool) -> Bool
}

extension Optional: OptionalSequence where Wrapped: Sequence {
  /// Returns whether there is a sequence, and an element of it fulfills a test.
  public func containsElement(where test: (Wrapped.Element) -> Bool) -> Bool { self?.contains(where: test) ?? false }
}

// MARK: - Conditions

extension FieldElement where Value: Hashable & Sendable {
  /// Returns the condition that one of the values equals a value.
  public static func == (element: Self, value: Value) -> Condition<Root> {
    let value = element.fitted(value)
    return element.condition(.equal(Operand(value)), FieldKeys.some([value])) { $0 == value }
  }

  /// Makes the comparison a compiler error, because it could mean two things.
  @available(
    *, unavailable,
    message: "write `!($0.tags.any == value)`: none of the values may equal it"
  )
  public static func != (element: Self, value: Value) -> Condition<Root> { !(element == value) }

  /// Returns the condition that one of the values is among those of a sequence. An empty one is never fulfilled.
  public func isIn(_ values: some Sequence<Value>) -> Condition<Root> {
    let values = Set(values.map(fitted))
    return condition(.isIn(Set(values.map { Operand($0) })), FieldKeys.some(values)) { values.contains($0) }
  }
}

extension FieldElement where Value: Hashable & Comparable & Sendable {
  /// Returns the condition that one of the values is less than a value.
  public static func < (element: Self, value: Value) -> Condition<Root> {
    let value = element.fitted(value)
    return element.comparison(.below(Operand(value), orEqual: false), FieldKeys.below(value, orEqual: false)) {
      $0 < value
    }
  }

  /// Returns the condition that one of the values is less than or equal to a value.
  public static func <= (element: Self, value: Value) -> Condition<Root> {
    let value = element.fitted(value)
    return element.comparison(.below(Operand(value), orEqual: true), FieldKeys.below(value, orEqual: true)) {
      $0 <= value
    }
  }

  /// Returns the condition that one of the values is greater than a value.
  public static func > (element: Self, value: Value) -> Condition<Root> {
    let value = element.fitted(value)
    return element.comparison(.above(Operand(value), orEqual: false), FieldKeys.above(value, orEqual: false)) {
      $0 > value
    }
  }

  /// Returns the condition that one of the values is greater than or equal to a value.
  public static func >= (element: Self, value: Value) -> Condition<Root> {
    let value = element.fitted(value)
    return element.comparison(.above(Operand(value), orEqual: true), FieldKeys.above(value, orEqual: true)) {
      $0 >= value
    }
  }

  /// Returns the condition that one of the values is in a range.
  public func isIn(_ range: ClosedRange<Value>) -> Condition<Root> {
    let (lower, upper) = (fitted(range.lowerBound), fitted(range.upperBound))
    return comparison(
      .range(Operand(lower), Operand(upper), isClosed: true), FieldKeys.range(lower, upper, isClosed: true)
    ) { $0 >= lower && $0 <= upper }
  }

  /// Returns the condition that one of the values is in a range.
  public func isIn(_ range: Range<Value>) -> Condition<Root> {
    let (lower, upper) = (fitted(range.lowerBound), fitted(range.upperBound))
    return comparison(
      .range(Operand(lower), Operand(upper), isClosed: false), FieldKeys.range(lower, upper, isClosed: false)
    ) { $0 >= lower && $0 < upper }
  }
}

extension FieldElement where Value: QueryableText {
  /// Returns the condition that one of the values begins with a text, compared as by `Field.hasPrefix`.
  public func hasPrefix(_ prefix: String) -> Condition<Root> {
    let prefix = fitted(prefix)
    let keys = FieldKeys.prefix(prefix, isOptional: Value.isOptionalText)
    return condition(.prefix(prefix), keys) { FieldKeys.has(keys, $0) }
  }
}

extension FieldElement where Value == String {
  /// Returns the condition that one of the values contains a text, compared by characters. No index serves it.
  public func contains(_ text: String) -> Condition<Root> {
    let text = fitted(text)
    return condition(.substring(text), nil) { $0.contains(text) }
  }

  /// Returns the condition that one of the values ends with a text, compared by characters. No index serves it.
  public func hasSuffix(_ suffix: String) -> Condition<Root> {
    let suffix = fitted(suffix)
    return condition(.suffix(suffix), nil) { $0.hasSuffix(suffix) }
  }
}

// MARK: - Terms

extension FieldElement {
  private func fitted<Operand>(_ value: Operand) -> Operand { inner?.fitted(value) ?? value }

  private func condition(
    _ comparison: ConditionTerm<Root>.Comparison, _ keys: KeySet?, _ test: @escaping @Sendable (Value) -> Bool
  ) -> Condition<Root> {
    var ofElements = ConditionTerm<Root>.Comparison.any(inner, comparison)
    // The condition of `Field.contains`, whose text is on disk in definitions of indexes.
    if inner == nil, case .equal(let operand) = comparison { ofElements = .element(operand) }
    let isAny = isAny
    // An index has the values themselves, and nothing that is derived from them.
    return Condition(
      ConditionTerm(
        path: list, comparison: ofElements, keys: inner == nil ? keys : nil, test: { isAny($0, test) },
        key: { _ in nil }
      ))
  }

  private func comparison(
    _ comparison: ConditionTerm<Root>.Comparison, _ keys: KeySet?, _ test: @escaping @Sendable (Value) -> Bool
  ) -> Condition<Root> {
    // For strings that are not in normal form, the operator and the keys have different results, so the keys are used.
    if let keys, Value.self == String.self { return condition(comparison, keys) { FieldKeys.has(keys, $0) } }
    return condition(comparison, keys, test)
  }
}
