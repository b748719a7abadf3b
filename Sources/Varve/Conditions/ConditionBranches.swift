/// A condition as a disjunction of branches, which is the form in which indexes are chosen.
///
/// For each field whose values are keys, a branch has one set, whatever the number and order of its terms; terms that
/// cannot be expressed by keys are kept separately. A condition that cannot be fulfilled has no branch.
struct ConditionBranches<Root>: Sendable {
  /// Terms that all have to be fulfilled.
  struct Branch: Sendable {
    /// The sets of the fields, at most one per field, in the order of their first occurrence.
    fileprivate(set) var sets: [(path: FieldPath, set: KeySet)] = []
    /// The terms that cannot be expressed by sets, and whether each is negated.
    fileprivate(set) var others: [(term: ConditionTerm<Root>, isNegated: Bool)] = []

    /// Returns the set of a field, or nil if the branch does not restrict it.
    func set(of path: FieldPath) -> KeySet? { sets.first { $0.path == path }?.set }

    fileprivate var termCount: Int { sets.count + others.count }

    /// Returns the conjunction of two branches, or nil if it cannot be fulfilled.
    fileprivate func joined(with other: Branch) -> Branch? {
      var joined = self
      for (path, set) in other.sets {
        guard let index = joined.sets.firstIndex(where: { $0.path == path }) else {
          joined.sets.append((path, set))
          continue
        }
        let common = joined.sets[index].set.intersection(set)
        if common.isEmpty { return nil }
        joined.sets[index].set = common
      }
      joined.others += other.others
      return joined
    }
  }

  private(set) var branches: [Branch]

  /// The maximum number of terms in all branches. An `&&` of several `||` results in their product.
  static var termMaximum: Int { 4_096 }

  /// Converts a condition to branches. Throws `.queryTooComplex`.
  init(_ condition: Condition<Root>) throws { branches = try Self.branches(condition.node, isNegated: false) }

  private static func branches(_ node: Condition<Root>.Node, isNegated: Bool) throws -> [Branch] {
    switch node {
    case .term(let term): return branches(term, isNegated)
    case .not(let inner): return try branches(inner, isNegated: !isNegated)
    case .all(let nodes): return try isNegated ? either(nodes, true) : together(nodes, false)
    case .any(let nodes): return try isNegated ? together(nodes, true) : either(nodes, false)
    case .tooComplex: throw ConditionLimits.tooDeep
    }
  }

  private static func branches(_ term: ConditionTerm<Root>, _ isNegated: Bool) -> [Branch] {
    // A field with several values may have values inside and outside of a set.
    if let keys = term.keys, !term.comparison.isOfElements {
      let set = isNegated ? keys.complement : keys
      return set.isEmpty ? [] : [Branch(sets: [(term.path, set)])]
    }
    return [Branch(others: [(term, isNegated)])]
  }

  private static func together(_ nodes: [Condition<Root>.Node], _ isNegated: Bool) throws -> [Branch] {
    var product = [Branch()]
    for node in nodes {
      let factors = try branches(node, isNegated: isNegated)
      var next: [Branch] = []
      var count = 0
      for branch in product {
        for factor in factors {
          guard let joined = branch.joined(with: factor) else { continue }
          count += joined.termCount
          guard count <= termMaximum else { throw ConditionLimits.tooManyTerms }
          next.append(joined)
        }
      }
      product = next
    }
    return product
  }

  private static func either(_ nodes: [Condition<Root>.Node], _ isNegated: Bool) throws -> [Branch] {
    var sum: [Branch] = []
    // The index in `sum` of the branch that restricts only one field, by that field. The sets of further such branches
    // are added to its set.
    var single: [FieldPath: Int] = [:]
    var count = 0
    for node in nodes {
      for branch in try branches(node, isNegated: isNegated) {
        if branch.others.isEmpty, branch.sets.count == 1 {
          let (path, set) = branch.sets[0]
          if let index = single[path] {
            sum[index].sets[0].set = sum[index].sets[0].set.union(set)
            continue
          }
          single[path] = sum.count
        }
        count += branch.termCount
        guard count <= termMaximum else { throw ConditionLimits.tooManyTerms }
        sum.append(branch)
      }
    }
    return sum
  }
}
