/// A comparison of a single field.
struct ConditionTerm<Root>: Sendable {
  /// The operator of a comparison with its operands. Two terms are equal if their paths and comparisons are.
  indirect enum Comparison: Sendable, Hashable {
    case equal(Operand)
    case isIn(Set<Operand>)
    case below(Operand, orEqual: Bool)
    case above(Operand, orEqual: Bool)
    case range(Operand, Operand, isClosed: Bool)
    case prefix(String)
    case substring(String)
    case suffix(String)
    /// One of the field's values equals the operand.
    case element(Operand)
    /// One of the field's values fulfills another comparison, or what is at a path of it does.
    case any(FieldPath?, Comparison)
    /// The field is not nil, and has a key.
    case keyed

    /// Whether one of the field's values has to fulfill the comparison.
    var isOfElements: Bool {
      switch self {
      case .element, .any: true
      default: false
      }
    }
  }

  let path: FieldPath
  let comparison: Comparison
  /// The keys of the field's values that fulfil the term, or nil if the field's type has no keys or the values cannot
  /// be described by ranges.
  let keys: KeySet?
  /// Returns whether an instance fulfills the term.
  let test: @Sendable (Root) -> Bool
  /// Returns the key of the field's value in an instance, or nil if it has none.
  let key: @Sendable (Root) -> [UInt8]?
}

extension ConditionTerm: Hashable {
  static func == (left: Self, right: Self) -> Bool { left.path == right.path && left.comparison == right.comparison }

  func hash(into hasher: inout Hasher) {
    hasher.combine(path)
    hasher.combine(comparison)
  }
}

/// A value with which a field is compared.
struct Operand: @unchecked Sendable, Hashable {
  // Sendable is not checked: operands are values of fields or of predicates, which are sendable as a whole.
  private let value: any Hashable

  init(_ value: some Hashable & Sendable) { self.value = value }
  init(ofPredicate value: some Hashable) { self.value = value }

  /// The text of the operand in definitions on disk: if it can be a key, the text that the tool prints for keys.
  var text: String {
    guard let key = value as? any KeyCodable, let bytes = try? key.encoded() else { return String(reflecting: value) }
    return KeyText.text(of: bytes)
  }

  static func == (left: Operand, right: Operand) -> Bool { AnyHashable(left.value) == AnyHashable(right.value) }

  func hash(into hasher: inout Hasher) { AnyHashable(value).hash(into: &hasher) }
}
