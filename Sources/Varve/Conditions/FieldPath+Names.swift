internal import UnicodeNormalForm

extension FieldPath {
  /// The name of a path in definitions on disk.
  enum Name: Equatable {
    /// The names of the stored properties, separated by dots, without the root's type.
    case stored(String)
    /// The path has a computed property or a subscript, and so no stable name.
    case computed
    /// The key path literal has `?.` or `!`, so it equals no path of a condition.
    case chained(String)
  }

  /// The name of the path. It is independent of the name of the root type.
  var name: Name {
    var names: [String] = []
    for component in components {
      switch Self.name(component) {
      case .stored(let name): names.append(name)
      case let other: return other
      }
    }
    return .stored(names.joined(separator: "."))
  }

  private static func name(_ component: AnyKeyPath) -> Name {
    // This property is computed, but stable for a version of Unicode. Its debug description contains an address and
    // cannot be used.
    if component == \String.folded { return .stored("folded\(FoldedForm.version)") }
    // The format is that of SE-0369: `\Book.home.city`, `\Book.<computed 0x0000 (Int)>`, `\Book.home?.city?`.
    let text = component.debugDescription
    let root = "\\\(type(of: component).rootType)."
    let names = text.hasPrefix(root) ? String(text.dropFirst(root.count)) : text
    if names.contains("<") || !text.hasPrefix(root) { return .computed }
    if names.contains(where: { $0 == "?" || $0 == "!" }) { return .chained(names) }
    return .stored(names)
  }
}

extension Condition {
  /// A text of the condition that is the same in each start of a program, or nil if one of its fields has no stable
  /// name.
  var definition: String? { node.definition }
}

extension Condition.Node {
  fileprivate var definition: String? {
    func list(_ nodes: [Self], _ sign: String) -> String? {
      let parts = nodes.compactMap(\.definition)
      return parts.count == nodes.count ? "(\(parts.joined(separator: sign)))" : nil
    }
    switch self {
    case .term(let term): return term.definition
    case .all(let nodes): return list(nodes, " && ")
    case .any(let nodes): return list(nodes, " || ")
    case .not(let node): return node.definition.map { "!\($0)" }
    case .tooComplex: return nil
    }
  }
}

extension ConditionTerm {
  fileprivate var definition: String? {
    guard case .stored(let name) = path.name else { return nil }
    return comparison.definition.map { "\(name) \($0)" }
  }
}

extension ConditionTerm.Comparison {
  /// The text of the comparison, or nil if a field in it has no stable name.
  fileprivate var definition: String? {
    switch self {
    case .equal(let value): return "== \(value.text)"
    case .isIn(let values): return "in [\(values.map(\.text).sorted().joined(separator: ", "))]"
    case .below(let value, let orEqual): return "\(orEqual ? "<=" : "<") \(value.text)"
    case .above(let value, let orEqual): return "\(orEqual ? ">=" : ">") \(value.text)"
    case .range(let lower, let upper, let isClosed):
      return "in \(lower.text)\(isClosed ? "..." : "..<")\(upper.text)"
    case .prefix(let text): return "prefix \(text.debugDescription)"
    case .substring(let text): return "contains \(text.debugDescription)"
    case .suffix(let text): return "suffix \(text.debugDescription)"
    case .element(let value): return "has \(value.text)"
    case .any(nil, let comparison): return comparison.definition.map { "any \($0)" }
    case .any(let inner?, let comparison):
      guard case .stored(let name) = inner.name else { return nil }
      return comparison.definition.map { "any \(name) \($0)" }
    case .keyed: return "is keyed"
    }
  }
}

extension FoldedParts {
  /// Creates the parts of an index with some fields.
  init(_ fields: [FieldPath]) { self.init(isFolded: fields.map(\.isFolded)) }
}

extension FieldPath {
  /// The name of the field in messages.
  var text: String {
    switch name {
    case .stored(let name): name
    case .computed: "a computed field"
    case .chained(let name): name
    }
  }
}
