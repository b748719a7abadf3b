/// A condition that is asked of stored rows, without decoding them.
///
/// Only what a field's stored value says by itself is read: of fields whose kinds are known, at paths of stored properties that
/// are named as their coding keys. Whether decoding keeps these values, `StoredFieldProof` compares.
struct StoredCondition<Format: StoreFormat>: Sendable {
  struct Field: Sendable {
    let names: [String]
    let kind: StoredKind
    let path: FieldPath
  }

  struct Term: Sendable {
    let field: Int
    let question: Question
    let term: ConditionTerm<Format.Instance>

    enum Question: Sendable {
      case keys(KeySet)
      case elements(KeySet)
      case substring(String)
    }
  }

  /// The condition as a list: a node is followed by its own, so that asking makes no copies.
  enum Node: Sendable {
    case term(Int)
    case not
    /// So many nodes follow that belong to it, with theirs.
    case all(size: Int)
    case any(size: Int)
  }

  private(set) var fields: [Field] = []
  private(set) var terms: [Term] = []
  private(set) var nodes: [Node] = []

  /// Nil where a term asks for what stored rows don't say.
  init?(_ condition: Condition<Format.Instance>) {
    guard add(condition.node) else { return nil }
  }

  private mutating func add(_ node: Condition<Format.Instance>.Node) -> Bool {
    switch node {
    case .term(let term): return add(term)
    case .not(let inner):
      nodes.append(.not)
      return add(inner)
    case .all(let list): return add(list) { .all(size: $0) }
    case .any(let list): return add(list) { .any(size: $0) }
    case .tooComplex: return false
    }
  }

  private mutating func add(_ list: [Condition<Format.Instance>.Node], _ make: (Int) -> Node) -> Bool {
    let start = nodes.count
    nodes.append(make(0))
    for node in list where !add(node) { return false }
    nodes[start] = make(nodes.count - start - 1)
    return true
  }

  private mutating func add(_ term: ConditionTerm<Format.Instance>) -> Bool {
    guard case .stored(let name) = term.path.name, let kind = StoredKind.of(type(of: term.path.path).valueType) else {
      return false
    }
    let question: Term.Question
    switch term.question {
    case .element:
      guard kind.isList, let keys = term.keys else { return false }
      question = .elements(keys)
    case .substring(let text):
      guard !kind.isList else { return false }
      question = .substring(text)
    default:
      guard !kind.isList, let keys = term.keys else { return false }
      question = .keys(keys)
    }
    let field = fields.firstIndex { $0.path == term.path } ?? fields.count
    if field == fields.count {
      fields.append(Field(names: name.split(separator: ".").map(String.init), kind: kind, path: term.path))
    }
    nodes.append(.term(terms.count))
    terms.append(Term(field: field, question: question, term: term))
    return true
  }
}
