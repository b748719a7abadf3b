/// A condition that is evaluated on stored rows, without decoding them.
///
/// It only reads fields whose stored values are self-contained: fields of known kinds, at paths of stored properties
/// that are named like their coding keys. `StoredFieldProof` checks that decoding preserves these values.
struct StoredCondition<Format: StoreFormat>: Sendable {
  private(set) var predicate = StoredPredicate()
  /// The terms of the condition, one for each of the predicate's terms.
  private(set) var terms: [ConditionTerm<Format.Instance>] = []

  /// Creates a stored condition, or returns nil if a term cannot be evaluated on stored rows.
  init?(_ condition: Condition<Format.Instance>) {
    guard add(condition.node) else { return nil }
  }

  private mutating func add(_ node: Condition<Format.Instance>.Node) -> Bool {
    switch node {
    case .term(let term): return add(term)
    case .not(let inner):
      predicate.nodes.append(.not)
      return add(inner)
    case .all(let list): return add(list) { .all(size: $0) }
    case .any(let list): return add(list) { .any(size: $0) }
    case .tooComplex: return false
    }
  }

  private mutating func add(
    _ list: [Condition<Format.Instance>.Node], _ make: (Int) -> StoredPredicate.Node
  ) -> Bool {
    let start = predicate.nodes.count
    predicate.nodes.append(make(0))
    for node in list where !add(node) { return false }
    predicate.nodes[start] = make(predicate.nodes.count - start - 1)
    return true
  }

  private mutating func add(_ term: ConditionTerm<Format.Instance>) -> Bool {
    guard case .stored(let name) = term.path.name, let kind = StoredKind.of(type(of: term.path.path).valueType) else {
      return false
    }
    let comparison: StoredPredicate.Comparison
    switch term.comparison {
    case .element, .any:
      guard kind.isList, let keys = term.keys else { return false }
      comparison = .elements(keys)
    case .substring(let text):
      guard !kind.isList else { return false }
      comparison = .substring(text)
    case .suffix(let text):
      guard !kind.isList else { return false }
      comparison = .suffix(text)
    default:
      guard !kind.isList, let keys = term.keys else { return false }
      comparison = .keys(keys)
    }
    let field = predicate.fields.firstIndex { $0.path == term.path } ?? predicate.fields.count
    if field == predicate.fields.count {
      let names = name.split(separator: ".").map(String.init)
      predicate.fields.append(StoredPredicate.Field(names: names, kind: kind, path: term.path))
    }
    predicate.nodes.append(.term(terms.count))
    predicate.terms.append(StoredPredicate.Term(field: field, comparison: comparison))
    terms.append(term)
    return true
  }
}

/// The tests of a condition on stored values. The type is independent of the instances' type, so that the compiler can
/// specialize it fully, and testing a row does not look up that type.
struct StoredPredicate: Sendable {
  struct Field: Sendable {
    let names: [String]
    let kind: StoredKind
    let path: FieldPath
  }

  struct Term: Sendable {
    let field: Int
    let comparison: Comparison
  }

  enum Comparison: Sendable {
    case keys(KeySet)
    case elements(KeySet)
    case substring(String)
    case suffix(String)
  }

  /// A node of the condition in prefix order: the children of a node follow it, so that evaluation makes no copies.
  enum Node: Sendable {
    case term(Int)
    case not
    /// A conjunction; `size` is the number of following nodes that belong to it, including their own children.
    case all(size: Int)
    case any(size: Int)
  }

  fileprivate(set) var fields: [Field] = []
  fileprivate(set) var terms: [Term] = []
  fileprivate(set) var nodes: [Node] = []

  /// Returns whether a row, whose fields the reader has located, fulfills the condition.
  func holds(_ reader: StoredReader, _ source: ByteSource) throws -> Bool {
    var index = 0
    return try holds(at: &index, reader, source)
  }

  private func holds(at index: inout Int, _ reader: StoredReader, _ source: ByteSource) throws -> Bool {
    let node = nodes[index]
    index += 1
    switch node {
    case .term(let number): return try holds(number, reader, source)
    case .not: return try !holds(at: &index, reader, source)
    case .all(let size):
      let end = index + size
      defer { index = end }
      while index < end {
        if try !holds(at: &index, reader, source) { return false }
      }
      return true
    case .any(let size):
      let end = index + size
      defer { index = end }
      while index < end {
        if try holds(at: &index, reader, source) { return true }
      }
      return false
    }
  }

  private func holds(_ number: Int, _ reader: StoredReader, _ source: ByteSource) throws -> Bool {
    let term = terms[number]
    let kind = fields[term.field].kind
    switch term.comparison {
    case .keys(let keys):
      do { return try reader.withKey(term.field, kind, source) { keys.contains($0) } } catch let error as DatabaseError
        where error.code == .invalidKey
      { return keys.hasUnkeyed }
    case .elements(let keys): return try reader.hasElement(term.field, kind, source) { keys.contains($0) }
    case .substring(let text): return try reader.text(term.field, source)?.contains(text) ?? false
    case .suffix(let text): return try reader.text(term.field, source)?.hasSuffix(text) ?? false
    }
  }
}
