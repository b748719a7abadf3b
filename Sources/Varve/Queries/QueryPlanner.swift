/// Chooses how a query finds its rows.
struct QueryPlanner<Format: StoreFormat> {
  typealias Access = QueryPlan<Format>.Access
  typealias Branch = ConditionBranches<Format.Instance>.Branch

  let query: StoreQuery<Format>
  /// The indexes of the collection, or nil if the format has none.
  let indexes: IndexesTransaction<Format.Instance>?
  let info: CollectionInfo
  let transaction: ReadTransaction
  private let matcher: AccessMatcher<Format>

  /// The maximum number of branches that are merged.
  private static var mergedMaximum: Int { 64 }
  /// The ratio of entries from which on an index is not intersected with another one.
  private static var intersectedRatio: Int { 16 }

  init(
    _ query: StoreQuery<Format>, _ indexes: IndexesTransaction<Format.Instance>?, _ info: CollectionInfo,
    _ transaction: ReadTransaction
  ) {
    self.query = query
    self.indexes = indexes
    self.info = info
    self.transaction = transaction
    matcher = AccessMatcher(query)
  }

  /// Returns the plan of the query. Throws `.notIndexed`, `.queryTooComplex`, and the error of a row that can't be
  /// decoded and is in no index, if the format says so.
  func plan() throws -> QueryPlan<Format> {
    let plan = try planByIndexes()
    let usesIndex = plan.branches.contains { $0.accesses.contains { $0.source != .rows } }
    guard usesIndex, try hasUnindexedMatch() else { return plan }
    return self.plan([QueryPlan.Branch(accesses: [rows()], isExact: query.condition == nil)])
  }

  private func planByIndexes() throws -> QueryPlan<Format> {
    guard let condition = query.condition else { return plan([try everything()]) }
    let branches = try ConditionBranches(condition).branches
    var planned: [QueryPlan<Format>.Branch] = []
    for branch in branches {
      if let next = try best(for: branch, isOnly: branches.count == 1) {
        planned.append(next)
      } else if query.mayScan {
        return plan([try scan()])
      } else {
        try requireUsable(for: branch)
        throw notIndexed(branch)
      }
    }
    return plan(planned)
  }

  /// Returns the plan that reads an index instead of the rows, for a query without a condition whose caller needs only
  /// fields that the index has; nil if there is no such index in the order of the query.
  ///
  /// Rows that are in no index are not left out: if there are any, the rows are read.
  func plan(byIndex isWanted: (IndexDeclaration<Format.Instance>) -> Bool) throws -> QueryPlan<Format>? {
    // Without an order, a limit takes the first rows.
    guard query.condition == nil, query.isOrdered || query.maximum == nil, let indexes, try indexes.hasAllRows() else {
      return nil
    }
    let declarations = indexes.definition.indexes.map(\.declaration)
    let found = try candidates(for: Branch()).filter { access in
      guard case .index(let slot) = access.source, !query.isOrdered || access.order != nil else { return false }
      return isWanted(declarations[slot])
    }
    // The index with the fewest fields has the smallest entries.
    let smallest = found.min { first, second in
      guard case .index(let left) = first.source, case .index(let right) = second.source else { return false }
      return declarations[left].fields.count < declarations[right].fields.count
    }
    return smallest.map { plan([QueryPlan.Branch(accesses: [$0], isExact: true)]) }
  }

  private func plan(_ branches: [QueryPlan<Format>.Branch]) -> QueryPlan<Format> {
    guard branches.count > 1 else {
      let isInOrder = branches.allSatisfy { $0.first.order != nil }
      return QueryPlan(branches: branches, sorts: query.isOrdered && !isInOrder, isMerged: false)
    }
    if let merged = merged(branches) { return QueryPlan(branches: merged, sorts: false, isMerged: true) }
    return QueryPlan(branches: branches, sorts: query.isOrdered, isMerged: false)
  }

  /// Returns the branches so that they can be merged, or nil if their entries cannot be compared.
  private func merged(_ branches: [QueryPlan<Format>.Branch]) -> [QueryPlan<Format>.Branch]? {
    guard branches.count <= Self.mergedMaximum else { return nil }
    guard query.isOrdered else { return branches.allSatisfy(\.first.isByKey) ? branches : nil }
    if areInOneOrder(branches) { return branches }
    // A field that is fixed to a different value in each branch is made part of the order, so that it is compared, too.
    let whole = branches.compactMap { branch in
      wholeOrder(branch).map { QueryPlan<Format>.Branch(accesses: [$0], isExact: branch.isExact) }
    }
    return whole.count == branches.count && areInOneOrder(whole) ? whole : nil
  }

  /// Returns whether the entries of all branches are in the order of the query, and comparing them yields that order.
  private func areInOneOrder(_ branches: [QueryPlan<Format>.Branch]) -> Bool {
    let first = branches[0].first
    let paths = Set(first.orderFields.map(\.path))
    let wanted = query.order.prefix { !Format.isIdentifier($0.path) }
    let isOfOrderFields = wanted.allSatisfy { paths.contains($0.path) }
    return branches.allSatisfy { branch in
      let access = branch.first
      return access.order != nil && !access.turnsTies && access.order == first.order
        && access.orderFields == first.orderFields
        && (isOfOrderFields || access.fixed == first.fixed)
    }
  }

  /// Returns the only access of a branch without fixed fields, or nil if its entries would then not be in order.
  private func wholeOrder(_ branch: QueryPlan<Format>.Branch) -> Access? {
    var access = branch.first
    guard branch.accesses.count == 1, case .index(let slot) = access.source,
      let declaration = indexes?.definition.indexes[slot].declaration, !declaration.kind.hasSeveralValues,
      let order = matcher.order(of: declaration, fixed: 0)
    else { return nil }
    (access.order, access.turnsTies) = (order.direction, order.turnsTies)
    access.fixed = []
    access.orderFields = matcher.orderFields(of: declaration, from: 0)
    return access
  }

  /// Throws the reason why an index that would bound a branch cannot be used: `.notReady`, `.notUnique`.
  private func requireUsable(for branch: Branch) throws {
    guard let indexes else { return }
    for (slot, index) in indexes.definition.indexes.enumerated() where matcher.holdsAll(index.declaration, of: branch) {
      let isBounding =
        index.declaration.kind.hasSeveralValues
        ? !matcher.elements(slot, index.declaration, branch).isEmpty
        : matcher.bounded(slot, index.declaration, branch).isBounded
      if isBounding { _ = try indexes.readable(slot) }
    }
  }

  private func notIndexed(_ branch: Branch) -> DatabaseError {
    let fields = (branch.sets.map(\.path) + branch.others.map(\.term.path)).map(\.text)
    return DatabaseError(
      .notIndexed,
      "no index of \(Format.self) bounds a condition on \(Set(fields).sorted().joined(separator: ", ")); declare one that begins with such a field, or one whose `where:` is a part of the condition, or write `.scan()`",
      collection: query.store.collection)
  }

  // MARK: - All rows

  /// Returns the branch of a query without a condition: an index that has all rows in the order of the query, or else
  /// the rows.
  private func everything() throws -> QueryPlan<Format>.Branch {
    let rows = rows()
    let ordered = rows.order == nil ? Self.ordered(try candidates(for: Branch())) : nil
    return QueryPlan.Branch(accesses: [ordered ?? rows], isExact: true)
  }

  /// Returns a branch that tests every row. If the query has a limit, an index that has the order is used.
  private func scan() throws -> QueryPlan<Format>.Branch {
    let rows = rows()
    let ordered =
      rows.order == nil && query.maximum != nil ? Self.ordered(try candidates(for: Branch())) : nil
    return QueryPlan.Branch(accesses: [ordered ?? rows], isExact: false)
  }

  /// Returns an access that is in order, if possible one whose ties are, too.
  private static func ordered(_ candidates: [Access]) -> Access? {
    candidates.first { $0.order != nil && !$0.turnsTies } ?? candidates.first { $0.order != nil }
  }

  private func rows() -> Access {
    Access(source: .rows, ranges: KeySet.all.ranges, order: matcher.rowOrder, isByKey: true)
  }

  // MARK: - One branch

  private func best(for branch: Branch, isOnly: Bool) throws -> QueryPlan<Format>.Branch? {
    var candidates = try candidates(for: branch).filter(\.isBounded)
    if let rows = rows(for: branch) { candidates.append(rows) }
    guard let only = candidates.first else { return nil }
    let all = Set(0..<(branch.sets.count + branch.others.count))
    let mayEndEarly = query.isOrdered && query.maximum != nil && only.order == nil
    if candidates.count == 1, !mayEndEarly {
      return QueryPlan.Branch(accesses: [only], isExact: only.terms == all)
    }
    if isOnly, let access = short(candidates, terms: all) {
      return QueryPlan.Branch(accesses: [access], isExact: true)
    }
    var counts = try estimates(candidates)
    // A limit ends an ordered iteration early, also that of an index which no term bounds.
    let fewest = counts.min() ?? 0
    if query.isOrdered, query.maximum != nil, fewest >= Self.lookMaximum,
      let unbounded = Self.ordered(try self.candidates(for: branch).filter { !$0.isBounded })
    {
      candidates.append(unbounded)
      counts.append(try total(of: unbounded))
    }
    let costs = zip(candidates, counts).map { cost($0, count: $1, matches: fewest) }
    var best = 0
    for next in candidates.indices.dropFirst() {
      let (access, other) = (candidates[next], candidates[best])
      let isBetter =
        costs[next] != costs[best]
        ? costs[next] < costs[best]
        : (access.pointCount, access.boundCount, access.order == nil ? 0 : 1)
          > (other.pointCount, other.boundCount, other.order == nil ? 0 : 1)
      if isBetter { best = next }
    }
    let access = candidates[best]
    var accesses = [access]
    var terms = access.terms
    if access.isByKey, access.ranges.count == 1, access.boundCount > 0, counts[best] >= Self.lookMaximum {
      // Other accesses in the same order are intersected by seeks.
      for next in candidates.indices where next != best {
        let other = candidates[next]
        guard other.isByKey, other.ranges.count == 1, other.boundCount > 0, !other.terms.isSubset(of: terms),
          counts[next] / Self.intersectedRatio <= counts[best]
        else { continue }
        accesses.append(other)
        terms.formUnion(other.terms)
      }
    }
    return QueryPlan.Branch(accesses: accesses, isExact: terms == all)
  }

  /// For a query with a small limit, returns an access that covers all terms and is in order. Reading it ends before
  /// estimates could find a better one.
  private func short(_ candidates: [Access], terms: Set<Int>) -> Access? {
    guard let maximum = query.maximum, maximum <= Self.lookMaximum else { return nil }
    return candidates.first { $0.terms == terms && (!query.isOrdered || $0.order != nil) }
  }

  /// Returns the approximate number of entries that are read. `matches` is the approximate number of rows of the
  /// branch.
  private func cost(_ access: Access, count: Int, matches: Int) -> Int {
    guard let maximum = query.maximum, !query.isOrdered || access.order != nil else { return count }
    let share = Double(maximum) * Double(count) / Double(max(matches, 1))
    return min(count, Int(min(share.rounded(.up), Double(Int32.max))))
  }

  /// Returns the access by the keys of the rows, or nil if the branch does not bound them.
  func rows(for branch: Branch) -> Access? {
    guard let index = branch.sets.firstIndex(where: { Format.isIdentifier($0.path) }) else { return nil }
    let set = branch.sets[index].set
    return Access(
      source: .rows, ranges: set.ranges, boundCount: 1, pointCount: set.ranges.allSatisfy(\.isPoint) ? 1 : 0,
      terms: [index], order: matcher.rowOrder, isByKey: true)
  }

  /// Returns the access of each usable index for a branch, including those that no term bounds.
  func candidates(for branch: Branch) throws -> [Access] {
    guard let indexes else { return [] }
    var found: [Access] = []
    for (slot, index) in indexes.definition.indexes.enumerated() {
      guard try indexes.isUsable(slot), matcher.holdsAll(index.declaration, of: branch) else { continue }
      if index.declaration.kind.hasSeveralValues {
        found += matcher.elements(slot, index.declaration, branch)
      } else {
        found.append(matcher.bounded(slot, index.declaration, branch))
      }
    }
    return found
  }
}

extension StoreFormat {
  /// Returns whether a path leads to the identifier of instances.
  static func isIdentifier(_ path: FieldPath) -> Bool {
    isIdentifiedByID && type(of: path.path).valueType == Identifier.self && path.name == .stored("id")
  }
}
