/// Chooses how a query finds its rows.
struct QueryPlanner<Format: StoreFormat> {
  typealias Access = QueryPlan<Format>.Access
  typealias Branch = ConditionBranches<Format.Instance>.Branch

  let query: StoreQuery<Format>
  /// The indexes of the collection, or nil if the format has none.
  let indexes: IndexesTransaction<Format.Instance>?
  let info: CollectionInfo
  let transaction: ReadTransaction

  /// The maximum number of ranges that are made by combining the values of several fields.
  private static var rangesMaximum: Int { 4_096 }
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
  }

  /// Returns the plan of the query. Throws `.notIndexed`, `.queryTooComplex`.
  func plan() throws -> QueryPlan<Format> {
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
      let order = order(of: declaration, fixed: 0)
    else { return nil }
    (access.order, access.turnsTies) = (order.direction, order.turnsTies)
    access.fixed = []
    access.orderFields = orderFields(of: declaration, from: 0)
    return access
  }

  private func orderFields(
    of declaration: IndexDeclaration<Format.Instance>, from first: Int
  ) -> [Access.OrderField] {
    declaration.fields[first...].map { Access.OrderField(path: $0.path, isDescending: $0.isDescending) }
  }

  /// Throws the reason why an index that would bound a branch cannot be used: `.notReady`, `.notUnique`.
  private func requireUsable(for branch: Branch) throws {
    guard let indexes else { return }
    for (slot, index) in indexes.definition.indexes.enumerated() where holdsAll(index.declaration, of: branch) {
      let isBounding =
        index.declaration.kind.hasSeveralValues
        ? !elements(slot, index.declaration, branch).isEmpty : bounded(slot, index.declaration, branch).boundCount > 0
      if isBounding { _ = try indexes.readable(slot) }
    }
  }

  private func notIndexed(_ branch: Branch) -> DatabaseError {
    let fields = (branch.sets.map(\.path) + branch.others.map(\.term.path)).map(\.text)
    return DatabaseError(
      .notIndexed,
      "no index of \(Format.self) bounds a condition on \(Set(fields).sorted().joined(separator: ", ")); declare one that begins with such a field, or write `.scan()`",
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
    Access(source: .rows, ranges: KeySet.all.ranges, order: rowOrder, isByKey: true)
  }

  // MARK: - One branch

  private func best(for branch: Branch, isOnly: Bool) throws -> QueryPlan<Format>.Branch? {
    var candidates = try candidates(for: branch).filter { $0.boundCount > 0 }
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
      let unbounded = Self.ordered(try self.candidates(for: branch).filter { $0.boundCount == 0 })
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
      terms: [index], order: rowOrder, isByKey: true)
  }

  /// The direction in which rows in key order are in the order of the query, or nil if they are not.
  private var rowOrder: Access.Order? {
    guard let first = query.order.first else { return query.isTieDescending ? .reverse : .forward }
    guard Format.isIdentifier(first.path) else { return nil }
    return first.isDescending ? .reverse : .forward
  }

  /// Returns the access of each usable index for a branch, including those that no term bounds.
  func candidates(for branch: Branch) throws -> [Access] {
    guard let indexes else { return [] }
    var found: [Access] = []
    for (slot, index) in indexes.definition.indexes.enumerated() {
      guard try indexes.isUsable(slot), holdsAll(index.declaration, of: branch) else { continue }
      if index.declaration.kind.hasSeveralValues {
        found += elements(slot, index.declaration, branch)
      } else {
        found.append(bounded(slot, index.declaration, branch))
      }
    }
    return found
  }

  /// Returns whether an index contains every row that fulfills a branch.
  private func holdsAll(_ declaration: IndexDeclaration<Format.Instance>, of branch: Branch) -> Bool {
    if let condition = declaration.condition {
      guard let own = try? ConditionBranches(condition).branches, own.count == 1, let wanted = own.first else {
        return false
      }
      for (path, set) in wanted.sets {
        guard let has = branch.set(of: path), has.intersection(set.complement).isEmpty else { return false }
      }
      for other in wanted.others where !branch.others.contains(where: { $0 == other }) { return false }
    }
    if !declaration.skipsInvalid { return true }
    // Rows with a value that has no key are not in the index.
    return declaration.fields.allSatisfy { field in
      field.keyType.hasKeyForEachValue || branch.set(of: field.path).map { !$0.hasUnkeyed } ?? false
    }
  }

  /// Returns an access for each term on an element of the field.
  private func elements(
    _ slot: Int, _ declaration: IndexDeclaration<Format.Instance>, _ branch: Branch
  ) -> [Access] {
    let path = declaration.fields[0].path
    return branch.others.enumerated().compactMap { index, other in
      guard !other.isNegated, other.term.path == path, case .element = other.term.comparison, let set = other.term.keys
      else { return nil }
      return Access(
        source: .index(slot), ranges: set.ranges, boundCount: 1, pointCount: 1,
        terms: [branch.sets.count + index], order: query.isOrdered ? rowOrder : .forward,
        fixed: set.ranges.first?.lower ?? [], isByKey: true)
    }
  }

  /// Returns the access with the ranges that the branch implies for the first fields of an index.
  private func bounded(_ slot: Int, _ declaration: IndexDeclaration<Format.Instance>, _ branch: Branch) -> Access {
    var access = Access(source: .index(slot), ranges: [KeySet.Range(lower: [], upper: nil)])
    var fixedCount = 0
    for field in declaration.fields {
      guard let term = branch.sets.firstIndex(where: { $0.path == field.path }) else { break }
      let set = branch.sets[term].set
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
  private func order(
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
    // No field of the index may be left before the rows' keys.
    guard rest.isEmpty else { return nil }
    return (direction ?? tie, direction.map { $0 != tie } ?? false)
  }
}

extension KeySet.Range {
  /// Whether the range contains exactly the keys that begin with one value.
  var isPoint: Bool {
    upper.map { $0.count == lower.count + 1 && $0.last == KeyTag.escape && $0.dropLast() == lower[...] } ?? false
  }

  /// Returns the range of the keys that consist of `parts` followed by a key of this range.
  func following(_ parts: [UInt8]) -> KeySet.Range {
    KeySet.Range(
      lower: parts + lower, upper: upper.map { parts + $0 } ?? (parts.isEmpty ? nil : KeyRange.end(ofParts: parts)))
  }
}

extension KeySet {
  /// The ranges of the same values in descending encoding, or nil if they cannot be converted, as for prefixes of
  /// texts.
  var descending: [Range]? {
    var turned: [Range] = []
    for range in ranges.reversed() {
      let (lower, upper) = (range.upper?.turnedBound, range.lower.turnedBound)
      guard lower != nil || range.upper == nil, upper != nil || range.lower.isEmpty else { return nil }
      turned.append(Range(lower: lower ?? [], upper: upper))
    }
    return turned
  }
}

extension [UInt8] {
  private var isOnePart: Bool { (try? KeyPart.parts(of: self))?.count == 1 }

  /// The bound of a range among the same values in descending encoding, or nil if it cannot be converted.
  fileprivate var turnedBound: [UInt8]? {
    // A bound before a value becomes one after it.
    if isOnePart { return descendingPart.map { KeyRange.end(ofParts: $0) } }
    // A bound after a value becomes one before it.
    let value = Array(dropLast())
    if last == KeyTag.escape, value.isOnePart { return value.descendingPart }
    // The bound is before or after all optionals that have a value.
    func areOptionals(_ bytes: [UInt8]) -> Bool { !bytes.isEmpty && bytes.allSatisfy { $0 == KeyTag.some } }
    if last == KeyTag.escape, areOptionals(value) { return value.map { ~$0 } }
    return areOptionals(self) ? KeyRange.successor(ofPrefix: map { ~$0 }) : nil
  }

  /// A single part of a key in the encoding of `KeyEncoder.encode(descending:)`.
  fileprivate var descendingPart: [UInt8]? {
    guard let tag = first(where: { $0 != KeyTag.some }) else { return nil }
    let isText = tag == KeyTag.string || tag == KeyTag.data
    return (isText ? self + [KeyTag.terminator] : self).map { ~$0 }
  }
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

extension KeyType {
  /// Whether every value of the type has a key. For example, the NaN of a double has none.
  var hasKeyForEachValue: Bool {
    let names = name.split { !$0.isLetter && !$0.isNumber }
    let safe: Set<Substring> = [
      "string", "int", "bool", "data", "uuid", "duration", "optional", "descending", "compound",
    ]
    return names.allSatisfy { safe.contains($0) }
  }
}

extension StoreFormat {
  /// Returns whether a path leads to the identifier of instances.
  static func isIdentifier(_ path: FieldPath) -> Bool {
    isIdentifiedByID && type(of: path.path).valueType == Identifier.self && path.name == .stored("id")
  }
}

extension IndexesTransaction {
  /// Returns whether every row is in the indexes: none could not be decoded, or has a value that cannot be a key.
  func hasAllRows() throws -> Bool { try part(definition.unindexedPart).first(in: StorageRange()) == nil }

  /// Returns whether an index contains all rows and can be used.
  func isUsable(_ slot: Int) throws -> Bool {
    guard try part(slot).isReady else { return false }
    return try !definition.plans[slot].isUnique || collisions(of: slot) == nil
  }
}
