/// A condition on an instance: comparisons of its fields, combined by `&&`, `||` and `!`.
///
/// ```swift
/// let wanted = Condition<Book> { $0.year.isIn(1950..<2000) && ($0.title.hasPrefix("The") || $0.tags.contains("x")) }
/// let some = books.filter(wanted.holds)
/// ```
///
/// Conditions have two values, as in Swift: nil equals nil, `!=` is true for nil and a value, no comparison and no
/// prefix is fulfilled by nil, and `!` is always the opposite. A condition on a field with several values is fulfilled
/// if one of them fulfills it.
///
/// A condition is a value, which equals others of the same form. Several `&&`, or several `||`, are one list, however
/// they were grouped. Safe from any thread.
public struct Condition<Root>: Sendable, Hashable {
  indirect enum Node: Sendable, Hashable {
    case term(ConditionTerm<Root>)
    case all([Node])
    case any([Node])
    case not(Node)
    /// The condition was nested too deeply, and its content was dropped.
    case tooComplex
  }

  let node: Node
  /// The nesting depth of the node; that of a term is 1.
  let depth: Int

  /// The maximum nesting depth of conditions. The content of deeper ones is dropped when they are created, and using
  /// them throws, because they could exhaust the stack when they are compared or freed.
  static var depthMaximum: Int { 64 }

  /// Creates the condition that a closure builds from the fields.
  public init(_ body: (Fields<Root>) -> Condition) { self = body(Fields()) }

  /// Creates the condition that a Boolean field is true.
  public init(_ body: (Fields<Root>) -> Field<Root, Bool>) { self = body(Fields()).isTrue }

  init(_ term: ConditionTerm<Root>) {
    node = .term(term)
    depth = 1
  }

  private init(_ node: Node, depth: Int) {
    self.node = depth > Self.depthMaximum ? .tooComplex : node
    self.depth = min(depth, Self.depthMaximum + 1)
  }

  /// Returns the condition that both conditions are fulfilled.
  public static func && (left: Condition, right: Condition) -> Condition {
    var nodes: [Node] = []
    for node in [left.node, right.node] {
      if case .all(let members) = node { nodes += members } else { nodes.append(node) }
    }
    return Condition(.all(nodes), depth: max(left.listDepth(\.isAll), right.listDepth(\.isAll)) + 1)
  }

  /// Returns the condition that at least one of both conditions is fulfilled.
  public static func || (left: Condition, right: Condition) -> Condition {
    var nodes: [Node] = []
    for node in [left.node, right.node] {
      if case .any(let members) = node { nodes += members } else { nodes.append(node) }
    }
    return Condition(.any(nodes), depth: max(left.listDepth(\.isAny), right.listDepth(\.isAny)) + 1)
  }

  /// Returns the condition that a condition is not fulfilled.
  public static prefix func ! (condition: Condition) -> Condition {
    if case .not(let node) = condition.node { return Condition(node, depth: condition.depth - 1) }
    return Condition(.not(condition.node), depth: condition.depth + 1)
  }

  /// Returns the depth inside a list. A list of the same kind is merged into it.
  private func listDepth(_ isSame: (Node) -> Bool) -> Int { isSame(node) ? depth - 1 : depth }

  /// Returns whether an instance fulfills the condition. Throws `.queryTooComplex`.
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
