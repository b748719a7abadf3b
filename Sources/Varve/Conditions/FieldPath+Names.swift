internal import UnicodeNormalForm

extension FieldPath {
  /// What a path is called in definitions on disk.
  enum Name: Equatable {
    /// The names of the stored properties, with dots between them, without the root's type.
    case stored(String)
    /// A computed property or a subscript is on the path: it has no name that stays.
    case computed
    /// `?.` or `!` stands in the literal: it equals no path that a condition names.
    case chained(String)
  }

  /// The name. A renamed root type changes nothing.
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
    // It is computed, and stays the same for a version of Unicode. The text would not do: it has an address.
    if component == \String.folded { return .stored("folded\(FoldedForm.version)") }
    // The form that SE-0369 describes: `\Book.home.city`, `\Book.<computed 0x0000 (Int)>`, `\Book.home?.city?`.
    let text = component.debugDescription
    let root = "\\\(type(of: component).rootType)."
    let names = text.hasPrefix(root) ? String(text.dropFirst(root.count)) : text
    if names.contains("<") || !text.hasPrefix(root) { return .computed }
    if names.contains(where: { $0 == "?" || $0 == "!" }) { return .chained(names) }
    return .stored(names)
  }
}

extension Condition {
  /// What the condition says, as text that stays the same from one start of a program to another; nil where a field of it
  /// has no name that stays.
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
    let text =
      switch question {
      case .equal(let value): "== \(value.text)"
      case .isIn(let values): "in [\(values.map(\.text).sorted().joined(separator: ", "))]"
      case .below(let value, let orEqual): "\(orEqual ? "<=" : "<") \(value.text)"
      case .above(let value, let orEqual): "\(orEqual ? ">=" : ">") \(value.text)"
      case .range(let lower, let upper, let isClosed): "in \(lower.text)\(isClosed ? "..." : "..<")\(upper.text)"
      case .prefix(let text): "prefix \(text.debugDescription)"
      case .substring(let text): "contains \(text.debugDescription)"
      case .element(let value): "has \(value.text)"
      case .keyed: "is keyed"
      }
    return "\(name) \(text)"
  }
}
