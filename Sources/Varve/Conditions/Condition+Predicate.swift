public import Foundation

/// Converts Foundation's predicates to conditions.
///
/// The following expressions are supported: comparisons of stored properties with values, `&&`, `||`, `!`, Boolean
/// properties, `nil`, `contains` of lists, ranges and strings, and `starts(with:)`. All other expressions throw an
/// error that names them.
extension Condition {
  /// Creates the condition that is equivalent to a predicate. Throws `.invalidArgument` if a part of it cannot be
  /// converted: the message names the part.
  public init(_ predicate: Predicate<Root>) throws {
    self = try PredicateLowering<Root>(predicate.variable.key).condition(predicate.expression)
  }
}

/// Converts the expressions of a predicate to conditions.
struct PredicateLowering<Root> {
  private let variable: PredicateExpressions.VariableID

  init(_ variable: PredicateExpressions.VariableID) { self.variable = variable }

  func condition(_ expression: Any) throws -> Condition<Root> {
    if let known = expression as? any PredicateCondition { return try known.condition(self) }
    if let field = try path(of: expression), let path = field.path as? KeyPath<Root, Bool> {
      return term(path, field, .equal(Operand(true)), FieldKeys.some([true])) { $0 }
    }
    throw unsupported(expression)
  }

  /// Returns the path that an expression represents, or nil if it is not a path.
  func path(of expression: Any) throws -> FieldPath? { try (expression as? any PredicatePath)?.path(self) }

  func isRoot(_ other: PredicateExpressions.VariableID) -> Bool { other == variable }

  func unsupported(_ expression: Any) -> DatabaseError {
    let name = "\(type(of: expression))".prefix { $0 != "<" }
    return DatabaseError(
      .invalidArgument,
      "a predicate on \(Root.self) has a \(name), which has no condition; write the query with `filter { }`, or compare a stored property with a value"
    )
  }

  // MARK: - Terms

  private func term<Value>(
    _ path: KeyPath<Root, Value>, _ field: FieldPath, _ comparison: ConditionTerm<Root>.Comparison, _ keys: KeySet?,
    _ test: @escaping (Value) -> Bool
  ) -> Condition<Root> {
    let parts = Parts(path: path, test: test)
    return Condition(
      ConditionTerm(
        path: field, comparison: comparison, keys: keys, test: { parts.test($0[keyPath: parts.path]) },
        key: { FieldKeys.key($0[keyPath: parts.path]) }))
  }

  /// Sendable is not checked: predicates are sendable, and so are their components.
  private struct Parts<Value>: @unchecked Sendable {
    let path: KeyPath<Root, Value>
    let test: (Value) -> Bool
  }

  func equal<Value: Equatable>(_ field: FieldPath, _ value: Value, _ expression: Any) throws -> Condition<Root> {
    let value = field.fitted(value)
    guard let path = field.path as? KeyPath<Root, Value>, let operand = Self.operand(value) else {
      throw unsupported(expression)
    }
    return term(path, field, .equal(operand), FieldKeys.some([value])) { $0 == value }
  }

  func compared<Value: Comparable>(
    _ field: FieldPath, _ value: Value, isBelow: Bool, orEqual: Bool, _ expression: Any
  ) throws -> Condition<Root> {
    let value = field.fitted(value)
    guard let path = field.path as? KeyPath<Root, Value>, let operand = Self.operand(value) else {
      throw unsupported(expression)
    }
    let keys = isBelow ? FieldKeys.below(value, orEqual: orEqual) : FieldKeys.above(value, orEqual: orEqual)
    let comparison: ConditionTerm<Root>.Comparison =
      isBelow ? .below(operand, orEqual: orEqual) : .above(operand, orEqual: orEqual)
    return term(path, field, comparison, keys) { found in
      if let keys, Value.self == String.self { return FieldKeys.has(keys, found) }
      if found == value { return orEqual }
      return isBelow ? found < value : found > value
    }
  }

  func isIn<Value: Equatable>(_ field: FieldPath, _ values: [Value], _ expression: Any) throws -> Condition<Root> {
    guard let path = field.path as? KeyPath<Root, Value> else { throw unsupported(expression) }
    let values = values.map(field.fitted)
    let operands = try values.map { value in
      guard let operand = Self.operand(value) else { throw unsupported(expression) }
      return operand
    }
    return term(path, field, .isIn(Set(operands)), FieldKeys.some(values)) { values.contains($0) }
  }

  func contains<Values: Sequence>(
    _ field: FieldPath, _ element: Values.Element, _ type: Values.Type, _ expression: Any
  ) throws -> Condition<Root> where Values.Element: Equatable {
    guard let path = field.path as? KeyPath<Root, Values>, let operand = Self.operand(element) else {
      throw unsupported(expression)
    }
    return term(path, field, .element(operand), FieldKeys.some([element])) { $0.contains(element) }
  }

  func text(_ field: FieldPath, _ text: String, isPrefix: Bool, _ expression: Any) throws -> Condition<Root> {
    guard let path = field.path as? KeyPath<Root, String> else { throw unsupported(expression) }
    let text = field.fitted(text)
    if !isPrefix { return term(path, field, .substring(text), nil) { $0.contains(text) } }
    let keys = FieldKeys.prefix(text, isOptional: false)
    return term(path, field, .prefix(text), keys) { FieldKeys.has(keys, $0) }
  }

  /// Returns the operand of a value, or nil if the value is not hashable.
  private static func operand(_ value: Any) -> Operand? {
    guard let value = value as? any Hashable else { return nil }
    return Operand(ofPredicate: value)
  }
}

// MARK: - Expressions

/// An expression that may be a path from the root.
private protocol PredicatePath {
  /// Returns the path, or nil if it begins at something other than the root.
  func path<Root>(_ lowering: PredicateLowering<Root>) throws -> FieldPath?
}

extension PredicateExpressions.Variable: PredicatePath {
  func path<Root>(_ lowering: PredicateLowering<Root>) -> FieldPath? {
    lowering.isRoot(key) ? FieldPath(path: \Root.self, components: []) : nil
  }
}

extension PredicateExpressions.KeyPath: PredicatePath {
  func path<Start>(_ lowering: PredicateLowering<Start>) throws -> FieldPath? {
    guard let start = try lowering.path(of: root) else { return nil }
    if start.components.isEmpty { return FieldPath(path: keyPath) }
    return start.path.appending(path: keyPath).map { FieldPath(path: $0, components: start.components + [keyPath]) }
  }
}

/// An expression whose value does not depend on the root.
private protocol PredicateConstant {
  var constant: Any { get }
}

extension PredicateExpressions.Value: PredicateConstant {
  var constant: Any { value }
}

extension PredicateExpressions.NilLiteral: PredicateConstant {
  var constant: Any { Wrapped?.none as Any }
}

private func constant<Value>(_ expression: Any, as type: Value.Type) -> Value? {
  (expression as? any PredicateConstant).flatMap { $0.constant as? Value }
}

/// An expression that can be converted to a condition.
private protocol PredicateCondition {
  func condition<Root>(_ lowering: PredicateLowering<Root>) throws -> Condition<Root>
}

extension PredicateExpressions.Conjunction: PredicateCondition {
  func condition<Root>(_ lowering: PredicateLowering<Root>) throws -> Condition<Root> {
    try lowering.condition(lhs) && lowering.condition(rhs)
  }
}

extension PredicateExpressions.Disjunction: PredicateCondition {
  func condition<Root>(_ lowering: PredicateLowering<Root>) throws -> Condition<Root> {
    try lowering.condition(lhs) || lowering.condition(rhs)
  }
}

extension PredicateExpressions.Negation: PredicateCondition {
  func condition<Root>(_ lowering: PredicateLowering<Root>) throws -> Condition<Root> {
    try !lowering.condition(wrapped)
  }
}

extension PredicateExpressions.Equal: PredicateCondition {
  func condition<Root>(_ lowering: PredicateLowering<Root>) throws -> Condition<Root> {
    if let path = try lowering.path(of: lhs), let value = constant(rhs, as: RHS.Output.self) {
      return try lowering.equal(path, value, self)
    }
    if let path = try lowering.path(of: rhs), let value = constant(lhs, as: LHS.Output.self) {
      return try lowering.equal(path, value, self)
    }
    throw lowering.unsupported(self)
  }
}

extension PredicateExpressions.NotEqual: PredicateCondition {
  func condition<Root>(_ lowering: PredicateLowering<Root>) throws -> Condition<Root> {
    if let path = try lowering.path(of: lhs), let value = constant(rhs, as: RHS.Output.self) {
      return try !lowering.equal(path, value, self)
    }
    if let path = try lowering.path(of: rhs), let value = constant(lhs, as: LHS.Output.self) {
      return try !lowering.equal(path, value, self)
    }
    throw lowering.unsupported(self)
  }
}

extension PredicateExpressions.Comparison: PredicateCondition {
  func condition<Root>(_ lowering: PredicateLowering<Root>) throws -> Condition<Root> {
    let isBelow = op == .lessThan || op == .lessThanOrEqual
    let orEqual = op == .lessThanOrEqual || op == .greaterThanOrEqual
    if let path = try lowering.path(of: lhs), let value = constant(rhs, as: RHS.Output.self) {
      return try lowering.compared(path, value, isBelow: isBelow, orEqual: orEqual, self)
    }
    if let path = try lowering.path(of: rhs), let value = constant(lhs, as: LHS.Output.self) {
      return try lowering.compared(path, value, isBelow: !isBelow, orEqual: orEqual, self)
    }
    throw lowering.unsupported(self)
  }
}

extension PredicateExpressions.SequenceContains: PredicateCondition {
  func condition<Root>(_ lowering: PredicateLowering<Root>) throws -> Condition<Root> {
    if let path = try lowering.path(of: sequence), let value = constant(element, as: RHS.Output.self) {
      return try lowering.contains(path, value, LHS.Output.self, self)
    }
    if let path = try lowering.path(of: element), let values = constant(sequence, as: LHS.Output.self) {
      return try lowering.isIn(path, Array(values), self)
    }
    throw lowering.unsupported(self)
  }
}

extension PredicateExpressions.RangeExpressionContains: PredicateCondition {
  func condition<Root>(_ lowering: PredicateLowering<Root>) throws -> Condition<Root> {
    guard let path = try lowering.path(of: element), let range = range as? any PredicateRange else {
      throw lowering.unsupported(self)
    }
    return try range.condition(path, lowering)
  }
}

/// A range of values that do not depend on the root.
private protocol PredicateRange {
  func condition<Root>(_ path: FieldPath, _ lowering: PredicateLowering<Root>) throws -> Condition<Root>
}

extension PredicateExpressions.Range: PredicateRange {
  func condition<Root>(_ path: FieldPath, _ lowering: PredicateLowering<Root>) throws -> Condition<Root> {
    guard let first = constant(lower, as: LHS.Output.self), let end = constant(upper, as: RHS.Output.self) else {
      throw lowering.unsupported(self)
    }
    return try lowering.compared(path, first, isBelow: false, orEqual: true, self)
      && lowering.compared(path, end, isBelow: true, orEqual: false, self)
  }
}

extension PredicateExpressions.ClosedRange: PredicateRange {
  func condition<Root>(_ path: FieldPath, _ lowering: PredicateLowering<Root>) throws -> Condition<Root> {
    guard let first = constant(lower, as: LHS.Output.self), let last = constant(upper, as: RHS.Output.self) else {
      throw lowering.unsupported(self)
    }
    return try lowering.compared(path, first, isBelow: false, orEqual: true, self)
      && lowering.compared(path, last, isBelow: true, orEqual: true, self)
  }
}

extension PredicateExpressions.Value: PredicateRange {
  func condition<Root>(_ path: FieldPath, _ lowering: PredicateLowering<Root>) throws -> Condition<Root> {
    guard let range = value as? any PredicateBounds else { throw lowering.unsupported(self) }
    return try range.condition(path, lowering)
  }
}

private protocol PredicateBounds {
  func condition<Root>(_ path: FieldPath, _ lowering: PredicateLowering<Root>) throws -> Condition<Root>
}

extension Range: PredicateBounds {
  fileprivate func condition<Root>(
    _ path: FieldPath, _ lowering: PredicateLowering<Root>
  ) throws -> Condition<Root> {
    try lowering.compared(path, lowerBound, isBelow: false, orEqual: true, self)
      && lowering.compared(path, upperBound, isBelow: true, orEqual: false, self)
  }
}

extension ClosedRange: PredicateBounds {
  fileprivate func condition<Root>(
    _ path: FieldPath, _ lowering: PredicateLowering<Root>
  ) throws -> Condition<Root> {
    try lowering.compared(path, lowerBound, isBelow: false, orEqual: true, self)
      && lowering.compared(path, upperBound, isBelow: true, orEqual: true, self)
  }
}

extension PredicateExpressions.CollectionContainsCollection: PredicateCondition {
  func condition<Root>(_ lowering: PredicateLowering<Root>) throws -> Condition<Root> {
    guard let path = try lowering.path(of: base), let text = constant(other, as: String.self) else {
      throw lowering.unsupported(self)
    }
    return try lowering.text(path, text, isPrefix: false, self)
  }
}

extension PredicateExpressions.SequenceStartsWith: PredicateCondition {
  func condition<Root>(_ lowering: PredicateLowering<Root>) throws -> Condition<Root> {
    guard let path = try lowering.path(of: base), let text = constant(prefix, as: String.self) else {
      throw lowering.unsupported(self)
    }
    return try lowering.text(path, text, isPrefix: true, self)
  }
}
