internal import FutexLocks

/// How counted indexes answer a query. It depends on the query and on the declared indexes, and not on any transaction:
/// a query determines it once.
///
/// It is a class because each use of the query references it.
final class CountedPlan<Format: StoreFormat>: Sendable {
  typealias Branch = ConditionBranches<Format.Instance>.Branch
  typealias Declaration = IndexDeclaration<Format.Instance>

  /// The accesses whose entries are the rows of the query. Their order need not be that of the query.
  let counting: [CountedAccess]
  /// The accesses whose entries are the rows of the query, in its order, in one range.
  let ordered: [CountedAccess]
  /// The branches of the condition.
  let branches: [Branch]
  /// The query, with an order.
  let query: StoreQuery<Format>

  /// The maximum number of ranges that are counted one by one.
  private static var rangesMaximum: Int { 64 }

  /// Determines the accesses. Throws `.queryTooComplex` and `.invalidDefinition`.
  init(_ query: StoreQuery<Format>) throws {
    let inOrder = query.inOrder
    self.query = inOrder
    let branches = try query.condition.map { try ConditionBranches($0).branches } ?? [Branch()]
    self.branches = branches
    (counting, ordered) = try branches.count == 1 ? Self.accesses(query, inOrder, branches[0]) : ([], [])
  }

  private static func accesses(
    _ query: StoreQuery<Format>, _ inOrder: StoreQuery<Format>, _ branch: Branch, ignoringSkips: Bool = false
  ) throws -> (counting: [CountedAccess], ordered: [CountedAccess]) {
    var (counting, ordered) = ([CountedAccess](), [CountedAccess]())
    let matcher = AccessMatcher(inOrder, isCounted: true, ignoresSkips: ignoringSkips)
    for (slot, index) in try DeclaredIndexes<Format>.found().list.enumerated() where index.plan.isCounted {
      guard matcher.holdsAll(index.declaration, of: branch) else { continue }
      for access in accesses(slot, index.declaration, branch, matcher) {
        guard covers(branch, access.terms, index.declaration) else { continue }
        let ranges = access.ranges.map { StorageRange(lower: $0.lower, upper: $0.upper) }
        let isInOrder = access.order != nil && !access.turnsTies
        let found = CountedAccess(slot: slot, ranges: ranges, isReverse: access.order == .reverse)
        // Without a condition and an order, the rows themselves are counted, also those that are in no index.
        if ranges.count <= rangesMaximum, query.condition != nil || (query.isOrdered && isInOrder) {
          counting.append(found)
        }
        if ranges.count == 1, isInOrder { ordered.append(found) }
      }
    }
    return (counting, ordered)
  }

  private static func accesses(
    _ slot: Int, _ declaration: Declaration, _ branch: Branch, _ matcher: AccessMatcher<Format>
  ) -> [QueryPlan<Format>.Access] {
    guard declaration.kind.hasSeveralValues else { return [matcher.bounded(slot, declaration, branch)] }
    // A row has one entry for a value, and may have several in a range.
    return matcher.elements(slot, declaration, branch).filter { $0.ranges.count == 1 && $0.ranges[0].isPoint }
  }

  /// Returns whether an access covers a whole branch: by its ranges, or because the index has only rows that fulfil the
  /// other terms.
  private static func covers(_ branch: Branch, _ terms: Set<Int>, _ declaration: Declaration) -> Bool {
    let terms = terms.union(AccessMatcher<Format>.conditionTerms(of: declaration, in: branch))
    return terms.count == branch.sets.count + branch.others.count
  }
}

extension CountedPlan {
  /// Whether no instance can fulfil the condition.
  var isEmpty: Bool { branches.isEmpty }

  /// Returns the accesses by which the rows of the query are divided into sections by a field.
  func sections(by path: FieldPath) throws -> [SectionAccess] { try sections(by: path, ignoringSkips: false) }

  private func sections(by path: FieldPath, ignoringSkips: Bool) throws -> [SectionAccess] {
    guard branches.count == 1, let branch = branches.first else { return [] }
    let matcher = AccessMatcher(query, isCounted: true, ignoresSkips: ignoringSkips)
    return try DeclaredIndexes<Format>.found().list.enumerated().compactMap { slot, index in
      guard index.plan.isCounted, !index.declaration.kind.hasSeveralValues,
        matcher.holdsAll(index.declaration, of: branch)
      else { return nil }
      return sections(by: path, slot, index.declaration, branch, matcher)
    }
  }

  /// Returns the name of an index that would have the offsets of the query, or its sections by a field, if it did not
  /// leave out invalid rows.
  func indexWithSkips(_ section: FieldPath?) throws -> String? {
    guard branches.count == 1 else { return nil }
    let slot =
      try section.map { try sections(by: $0, ignoringSkips: true).first?.slot }
      ?? Self.accesses(query, query, branches[0], ignoringSkips: true).ordered.first?.slot
    return try slot.map { try DeclaredIndexes<Format>.found().list[$0].name }
  }

  private func sections(
    by path: FieldPath, _ slot: Int, _ declaration: Declaration, _ branch: Branch, _ matcher: AccessMatcher<Format>
  ) -> SectionAccess? {
    var fixed: [UInt8] = []
    var terms: Set<Int> = []
    /// The ranges of a field's values as the index has them, and the number of its term.
    func values(_ field: IndexField<Format.Instance>) -> (ranges: [KeySet.Range], term: Int)? {
      guard field.prefix == nil, let term = branch.sets.firstIndex(where: { $0.path == field.path }) else { return nil }
      let set = branch.sets[term].set.withoutKeysBeforeNil
      guard !set.hasUnkeyed || field.keyType.hasKeyForEachValue else { return nil }
      return (field.isDescending ? set.descending : set.ranges).map { ($0, term) }
    }
    var position = 0
    while position < declaration.fields.count, declaration.fields[position].path != path {
      guard let (ranges, term) = values(declaration.fields[position]), ranges.count == 1, ranges[0].isPoint else {
        return nil
      }
      fixed = ranges[0].following(fixed).lower
      terms.insert(term)
      position += 1
    }
    guard position < declaration.fields.count, declaration.fields[position].prefix == nil else { return nil }
    let field = declaration.fields[position]
    var ranges = [KeySet.Range(lower: [], upper: nil)]
    if branch.set(of: path) != nil {
      guard let (found, term) = values(field) else { return nil }
      ranges = found
      terms.insert(term)
    }
    guard Self.covers(branch, terms, declaration),
      let order = matcher.order(of: declaration, fixed: position + 1), !order.turnsTies
    else { return nil }
    return SectionAccess(
      slot: slot, fixed: fixed,
      ranges: ranges.map { $0.following(fixed) }.map { StorageRange(lower: $0.lower, upper: $0.upper) },
      isDescending: field.isDescending, isReverse: order.direction == .reverse)
  }
}

/// The plan of a query by counted indexes, which is determined at the first use and shared by the copies of the query.
final class CountedPlanCache<Format: StoreFormat>: Sendable {
  private let plan = FutexLock<CountedPlan<Format>?>(nil)

  /// Returns the plan of a query, which is the one that has this cache. Throws `.queryTooComplex`.
  func plan(of query: StoreQuery<Format>) throws -> CountedPlan<Format> {
    if let known = plan.withLock({ $0 }) { return known }
    // If two threads determine it, both get the same.
    let made = try CountedPlan(query)
    plan.withLock { $0 = made }
    return made
  }
}

extension StoreQuery {
  /// The query in the order of the identifiers if it has no other, as for its pages. It has a plan of its own, so that
  /// the plan does not reference itself.
  fileprivate var inOrder: StoreQuery {
    var query = self
    query.counted = CountedPlanCache()
    if !isOrdered { query.page = QueryPosition(start: nil, isBackward: false) }
    return query
  }
}
