/// One comparison of one field.
struct ConditionTerm<Root>: Sendable {
  /// What is asked of the field, and of what value: two terms are equal if path and question are.
  enum Question: Sendable, Hashable {
    case equal(Operand)
    case isIn(Set<Operand>)
    case below(Operand, orEqual: Bool)
    case above(Operand, orEqual: Bool)
    case range(Operand, Operand, isClosed: Bool)
    case prefix(String)
    case substring(String)
    /// One of the field's values is this.
    case element(Operand)
    /// It has a key, and is not nil.
    case keyed

    var isOfElements: Bool {
      if case .element = self { true } else { false }
    }
  }

  let path: FieldPath
  let question: Question
  /// Of the values of the field, those that fulfil it, where they have keys; nil where the field's type has none, or a set of
  /// its values is not ranges.
  let keys: KeySet?
  /// Asks an instance.
  let test: @Sendable (Root) -> Bool
  /// The key of the field's value of an instance; nil where it has none.
  let key: @Sendable (Root) -> [UInt8]?
}

extension ConditionTerm: Hashable {
  static func == (left: Self, right: Self) -> Bool { left.path == right.path && left.question == right.question }

  func hash(into hasher: inout Hasher) {
    hasher.combine(path)
    hasher.combine(question)
  }
}

/// A value that a field is compared with.
struct Operand: @unchecked Sendable, Hashable {
  // Unchecked: values of fields, and those of predicates, which can be sent as a whole.
  private let value: any Hashable

  init(_ value: some Hashable & Sendable) { self.value = value }
  init(ofPredicate value: some Hashable) { self.value = value }

  /// As definitions on disk have it: as the tool prints keys, where it can be a key.
  var text: String {
    guard let key = value as? any KeyCodable, let bytes = try? key.encoded() else { return String(reflecting: value) }
    return KeyText.text(of: bytes)
  }

  static func == (left: Operand, right: Operand) -> Bool { AnyHashable(left.value) == AnyHashable(right.value) }

  func hash(into hasher: inout Hasher) { AnyHashable(value).hash(into: &hasher) }
}
