/// Determines what an index has of a query: which of its entries a branch of the condition bounds, and whether they are
/// in the order of the query. It depends on the query and the index alone, and not on their content.
struct AccessMatcher<Format: StoreFormat> {
  typealias Access = QueryPlan<Format>.Access
  typealias Branch = ConditionBranches<Format.Instance>.Branch

  let query: StoreQuery<Format>
  /// Whether the access is for counts. The identifier may then be the last field of an index, after the fields of the
  /// order, which anchors of pages do not have; and `!= nil` is one range.
  let isCounted: Bool
  /// Whether an index that leaves out invalid rows counts as one that has all of them, to find out what it is for.
  let ignoresSkips: Bool

  /// The maximum number of ranges that are made by combining the values of several fields.
  private static var rangesMaximum: Int { 4_096 }

  init(_ query: StoreQuery<Format>, isCounted: Bool = false, ignoresSkips: Bool = false) {
    self.query = query
    self.isCounted = isCounted
    self.ignoresSkips = ignoresSkips
  }

  func orderFields(
    of declaration: IndexDeclaration<Format.Instance>, from first: Int
  ) -> [Access.OrderField] {
    declaration.fields[first...].map { Access.OrderField(path: $0.path, isDescending: $0.isDescending) }
  }

  /// The direction in which rows in key order are in the order of the query, or nil if they are not.
  var rowOrder: Access.Order? {
    guard let first = query.order.first else { return query.isTieDescending ? .reverse : .forward }
    guard Format.isIdentifier(first.path) else { return nil }
    return first.isDescending ? .reverse : .forward
  }

  /// Returns whether an index contains every row that fulfills a branch.
  func holdsAll(_ declaration: IndexDeclaration<Format.Instance>, of branch: Branch) -> Bool {
    if let condition = declaration.condition {
      guard let own = try? ConditionBranches(condition).branches, own.count == 1, let wanted = own.first else {
        return false
      }
      for (path, set) in wanted.sets {
        guard let has = branch.set(of: path), has.intersection(set.complement).isEmpty else { return false }
      }
      for other in wanted.others where !branch.others.contains(where: { $0 == other }) { return false }
    }
    if !declaration.skipsInvalid || ignoresSkips { return true }
    // Rows with a value that has no key are not in the index.
    return declaration.fields.allSatisfy { field in
      field.keyType.hasKeyForEachValue || branch.set(of: field.path).map { !$0.hasUnkeyed } ?? false
    }
  }

  /// Returns the terms of a branch that are those of the index's own condition, by number: each of its entries fulfils
  /// them.
  static func conditionTerms(of declaration: IndexDeclaration<Format.Instance>, in branch: Branch) -> Set<Int> {
    guard let condition = declaration.condition, let own = try? ConditionBranches(condition).branches.first else {
      return []
    }
    var terms: Set<Int> = []
    for (number, term) in branch.sets.enumerated() where own.set(of: term.path) == term.set { terms.insert(number) }
    for (number, term) in branch.others.enumerated() where own.others.contains(where: { $0 == term }) {
      terms.insert(branch.sets.count + number)
    }
    return terms
  }

  /// Returns an access for each term on the elements of the field. A row has one entry for an element, and may have
  /// several in the range of a term.
  func elements(
    _ slot: Int, _ declaration: IndexDeclaration<Format.Instance>, _ branch: Branch
  ) -> [Access] {
    let path = declaration.fields[0].path
    let covered = Self.conditionTerms(of: declaration, in: branch)
    return branch.others.enumerated().compactMap { index, other in
      guard !other.isNegated, other.term.path == path, other.term.comparison.isOfElements, let set = other.term.keys
      else { return nil }
      let isOne = set.ranges.isEmpty || set.ranges.count == 1 && set.ranges[0].isPoint
      return Access(
        source: .index(slot), ranges: set.ranges, boundCount: 1, pointCount: isOne ? 1 : 0,
        terms: covered.union([branch.sets.count + index]),
        order: query.isOrdered ? isOne ? rowOrder : nil : .forward,
        fixed: isOne ? set.ranges.first?.lower ?? [] : [], isByKey: isOne, repeatsRows: !isOne)
    }
  }

  /// Returns the access with the ranges that the branch implies for the first fields of an index.
  func bounded(_ slot: Int, _ declaration: IndexDeclaration<Format.Instance>, _ branch: Branch) -> Access {
    var access = Access(source: .index(slot), ranges: [KeySet.Range(lower: [], upper: nil)])
    access.isPartial = declaration.condition != nil
    access.terms = Self.conditionTerms(of: declaration, in: branch)
    var fixedCount = 0
    for field in declaration.fields {
      guard let term = branch.sets.firstIndex(where: { $0.path == field.path }) else { break }
      let set = isCounted ? branch.sets[term].set.withoutKeysBeforeNil : branch.sets[term].set
      guard !set.hasUnkeyed || field.keyType.hasKeyForEachValue else { break }
      if let prefix = field.prefix {
        let values = prefix.widened(set.ranges)
        guard access.boundCount == 0 || access.ranges.count * values.count <= Self.rangesMaximum else { break }
        access.ranges = access.ranges.flatMap { first in values.map { $0.following(first.lower) } }
        // The prefix does not cover the whole term, so the condition is tested on the rows.
        access.boundCount += 1
        break
      }
      let isPoints = set.ranges.allSatisfy(\.isPoint)
      guard let values = field.isDescending ? set.descending : set.ranges,
        access.boundCount == 0 || access.ranges.count * values.count <= Self.rangesMaximum
      else { break }
      access.ranges = access.ranges.flatMap { first in values.map { $0.following(first.lower) } }
      access.boundCount += 1
      access.terms.insert(term)
      guard isPoints else { break }
      if fixedCount == access.pointCount, values.count == 1 {
        fixedCount += 1
        access.fixed = access.ranges[0].lower
      }
      access.pointCount += 1
    }
    access.isByKey = fixedCount == declaration.fields.count
    if let order = order(of: declaration, fixed: fixedCount) {
      (access.order, access.turnsTies) = (order.direction, order.turnsTies)
    }
    access.orderFields = orderFields(of: declaration, from: fixedCount)
    return access
  }

  /// Returns the direction in which the entries of ascending ranges are in the order of the query, and whether those
  /// with the same value have to be read in the opposite one, or nil if they are in another order. If the first `fixed`
  /// fields have one value, entries are in the order of the following fields.
  func order(
    of declaration: IndexDeclaration<Format.Instance>, fixed: Int
  ) -> (direction: Access.Order, turnsTies: Bool)? {
    guard query.isOrdered else { return (.forward, false) }
    let fixedPaths = Set(declaration.fields[..<fixed].map(\.path))
    let wanted = query.order.filter { !fixedPaths.contains($0.path) }
    var rest = declaration.fields[fixed...]
    var direction: Access.Order?
    // Entries with the same value are sorted by the key of the row, as ties are.
    var tie: Access.Order = query.isTieDescending ? .reverse : .forward
    for order in wanted {
      if rest.isEmpty, Format.isIdentifier(order.path) {
        tie = order.isDescending ? .reverse : .forward
        break
      }
      // Prefixes of values are not in the order of the values.
      guard let field = rest.popFirst(), field.path == order.path, field.prefix == nil else { return nil }
      let next: Access.Order = field.isDescending == order.isDescending ? .forward : .reverse
      if let direction, direction != next { return nil }
      direction = next
    }
    if isCounted, let field = rest.first, rest.count == 1, Format.isIdentifier(field.path) {
      // The identifiers are in the order of the rows' keys, so that no ties are left.
      let next: Access.Order = field.isDescending == query.isTieDescending ? .forward : .reverse
      return direction ?? next == next ? (next, false) : nil
    }
    // No field of the index may be left before the rows' keys.
    guard rest.isEmpty else { return nil }
    return (direction ?? tie, direction.map { $0 != tie } ?? false)
  }
}
