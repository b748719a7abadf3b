/// What is asked of an instance: comparisons of its fields, joined by `&&`, `||` and `!`.
///
/// ```swift
/// let wanted = Condition<Book> { $0.year.isIn(1950..<2000) && ($0.title.hasPrefix("The") || $0.tags.contains("x")) }
/// let some = books.filter(wanted.holds)
/// ```
///
/// Conditions have two values, as in Swift: nil equals nil, `!=` is true for nil against a value, no comparison and no prefix
/// holds for nil, and `!` is the opposite whatever it stands before. A condition on a field with several values holds if
/// one of them fulfils it.
///
/// A value: equal to others that were written alike. `&&` and `||` of several are one list, however they were put
/// together. Safe from any thread.
public struct Condition<Root>: Sendable, Hashable {
  indirect enum Node: Sendable, Hashable {
    case term(ConditionTerm<Root>)
    case all([Node])
    case any([Node])
    case not(Node)
    /// It was nested too deeply: what stood there is gone.
    case tooComplex
  }

  let node: Node
  /// How deep the node is nested: a term is 1.
  let depth: Int

  /// How deep conditions may be nested. Beyond that they are refused when they are used, and forgotten before: deeper ones
  /// could use up the stack when they are compared or freed.
  static var depthMaximum: Int { 64 }

  /// The condition that a closure makes of the fields.
  public init(_ body: (Fields<Root>) -> Condition) { self = body(Fields()) }

  /// The condition that a field of Booleans is true.
  public init(_ body: (Fields<Root>) -> Field<Root, Bool>) { self = body(Fields()).isTrue }

  init(_ term: ConditionTerm<Root>) {
    node = .term(term)
    depth = 1
  }

  private init(_ node: Node, depth: Int) {
    self.node = depth > Self.depthMaximum ? .tooComplex : node
    self.depth = min(depth, Self.depthMaximum + 1)
  }

  /// Both hold.
  public static func && (left: Condition, right: Condition) -> Condition {
    var nodes: [Node] = []
    for node in [left.node, right.node] {
      if case .all(let members) = node { nodes += members } else { nodes.append(node) }
    }
    return Condition(.all(nodes), depth: max(left.listDepth(\.isAll), right.listDepth(\.isAll)) + 1)
  }

  /// One of the two holds, or both do.
  public static func || (left: Condition, right: Condition) -> Condition {
    var nodes: [Node] = []
    for node in [left.node, right.node] {
      if case .any(let members) = node { nodes += members } else { nodes.append(node) }
    }
    return Condition(.any(nodes), depth: max(left.listDepth(\.isAny), right.listDepth(\.isAny)) + 1)
  }

  /// It does not hold.
  public static prefix func ! (condition: Condition) -> Condition {
    if case .not(let node) = condition.node { return Condition(node, depth: condition.depth - 1) }
    return Condition(.not(condition.node), depth: condition.depth + 1)
  }

  /// How deep it is inside of a list that takes it in where it is one of the same kind.
  private func listDepth(_ isSame: (Node) -> Bool) -> Int { isSame(node) ? depth - 1 : depth }

  /// Whether the condition holds for an instance. Throws `.queryTooComplex`.
  public func holds(for instance: Root) throws -> Bool { try node.holds(for: instance) }
}

extension Condition.Node {
  fileprivate var isAll: Bool {
    if case .all = self { true } else { false }
  }

  fileprivate var isAny: Bool {
    if case .any = self { true } else { false }
  }

  fileprivate func holds(for instance: Root) throws -> Bool {
    switch self {
    case .term(let term): return term.test(instance)
    case .all(let nodes):
      for node in nodes where try !node.holds(for: instance) { return false }
      return true
    case .any(let nodes):
      for node in nodes where try node.holds(for: instance) { return true }
      return false
    case .not(let node): return try !node.holds(for: instance)
    case .tooComplex: throw ConditionLimits.tooDeep
    }
  }
}

enum ConditionLimits {
  static var tooDeep: DatabaseError {
    DatabaseError(
      .queryTooComplex, "a condition is nested deeper than 64 levels of && and ||; several in a row are one level")
  }

  static var tooManyTerms: DatabaseError {
    DatabaseError(
      .queryTooComplex,
      "a condition has more than 4,096 terms when each && of several || is written out; split the query")
  }
}
