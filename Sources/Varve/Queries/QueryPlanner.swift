/// Chooses how a query finds its rows.
struct QueryPlanner<Format: StoreFormat> {
  typealias Access = QueryPlan<Format>.Access
  typealias Branch = ConditionBranches<Format.Instance>.Branch

  private let query: StoreQuery<Format>
  /// Nil where the format has none.
  private let indexes: IndexesTransaction<Format.Instance>?
  private let info: CollectionInfo
  private let transaction: ReadTransaction

  /// More ranges than these are not made of the values of several fields.
  private static var rangesMaximum: Int { 4_096 }
  /// So many entries are looked at to compare two indexes.
  private static var lookMaximum: Int { 64 }

  init(
    _ query: StoreQuery<Format>, _ indexes: IndexesTransaction<Format.Instance>?, _ info: CollectionInfo,
    _ transaction: ReadTransaction
  ) {
    self.query = query
    self.indexes = indexes
    self.info = info
    self.transaction = transaction
  }

  /// Throws `.notIndexed`, `.queryTooComplex`.
  func plan() throws -> QueryPlan<Format> {
    guard let condition = query.condition else {
      return plan([try everything()])
    }
    let branches = try ConditionBranches(condition).branches
    var accesses: [Access] = []
    for branch in branches {
      if let access = try best(for: branch) {
        accesses.append(access)
      } else if query.mayScan {
        return plan([try scan()])
      } else {
        throw notIndexed(branch)
      }
    }
    return plan(accesses)
  }

  private func plan(_ accesses: [Access]) -> QueryPlan<Format> {
    // Several are not in one order, whatever each is in.
    let isInOrder = accesses.count <= 1 && accesses.allSatisfy { $0.order != nil }
    return QueryPlan(accesses: accesses, sorts: !query.order.isEmpty && !isInOrder)
  }

  private func notIndexed(_ branch: Branch) -> DatabaseError {
    let fields = (branch.sets.map(\.path) + branch.others.map(\.term.path)).map(\.text)
    return DatabaseError(
      .notIndexed,
      "no index of \(Format.self) bounds a condition on \(Set(fields).sorted().joined(separator: ", ")); declare one that begins with such a field, or write `.scan()`",
      collection: query.store.collection)
  }

  // MARK: - Without a condition

  /// All rows: by an index that has all of them in the order of the query, or as they are.
  private func everything() throws -> Access {
    let rows = try scan(isExact: true)
    if rows.order != nil || query.order.isEmpty { return rows }
    return try candidates(for: Branch()).first { $0.order != nil } ?? rows
  }

  private func scan(isExact: Bool = false) throws -> Access {
    let set = KeySet.all
    return Access(
      source: .rows, ranges: set.ranges, boundCount: 0, pointCount: 0, isExact: isExact,
      order: rowOrder)
  }

  // MARK: - One branch

  private func best(for branch: Branch) throws -> Access? {
    var candidates = try candidates(for: branch).filter { $0.boundCount > 0 }
    if let rows = rows(for: branch) { candidates.append(rows) }
    guard candidates.count > 1 else { return candidates.first }
    // A limit ends an iteration in order early.
    if query.maximum != nil, !query.order.isEmpty {
      let ordered = candidates.filter { $0.order != nil }
      if !ordered.isEmpty, try candidates.allSatisfy({ try look($0) >= Self.lookMaximum }) { candidates = ordered }
    }
    var best: (access: Access, count: Int)?
    for access in candidates {
      let count = try look(access)
      guard let other = best else {
        best = (access, count)
        continue
      }
      let isBetter =
        count != other.count
        ? count < other.count
        : (access.pointCount, access.boundCount, access.order == nil ? 0 : 1)
          > (other.access.pointCount, other.access.boundCount, other.access.order == nil ? 0 : 1)
      if isBetter { best = (access, count) }
    }
    return best?.access
  }

  /// How many entries the ranges have, up to a bound.
  private func look(_ access: Access) throws -> Int {
    var count = 0
    for range in access.ranges {
      let (family, range) = try location(range, access.source)
      guard let family else { return 0 }
      let page = try transaction.view(of: family).page(
        range, in: family, isReverse: false, keysOnly: true, byteLimit: .max, rowLimit: Self.lookMaximum - count)
      count += page.count
      if count >= Self.lookMaximum { break }
    }
    return count
  }

  /// Where the entries of a range are.
  func location(_ range: KeySet.Range, _ source: Access.Source) throws -> (StorageFamily?, StorageRange) {
    guard case .index(let slot) = source else {
      let upper = range.upper.map { info.prefix + $0 } ?? info.range.upper
      return (info.objects, StorageRange(lower: info.prefix + range.lower, upper: upper))
    }
    return (try indexes?.part(slot).readFamily, StorageRange(lower: range.lower, upper: range.upper))
  }

  /// By the keys of the rows.
  private func rows(for branch: Branch) -> Access? {
    guard let set = branch.sets.first(where: { Format.isIdentifier($0.path) })?.set else { return nil }
    let isPoint = set.ranges.allSatisfy(\.isPoint)
    return Access(
      source: .rows, ranges: set.ranges, boundCount: 1, pointCount: isPoint ? 1 : 0,
      isExact: branch.sets.count == 1 && branch.others.isEmpty,
      order: rowOrder)
  }

  /// Rows are in the order of their keys.
  private var rowOrder: Access.Order? {
    guard let first = query.order.first else { return .forward }
    guard Format.isIdentifier(first.path) else { return nil }
    return first.isDescending ? .reverse : .forward
  }

  /// What each index that can be used has for a branch.
  private func candidates(for branch: Branch) throws -> [Access] {
    guard let indexes else { return [] }
    var found: [Access] = []
    for (slot, index) in indexes.definition.indexes.enumerated() {
      guard try indexes.isUsable(slot), holdsAll(index.declaration, of: branch) else { continue }
      if index.declaration.kind.hasSeveralValues {
        found += elements(slot, index.declaration, branch)
      } else if let access = bounded(slot, index.declaration, branch) {
        found.append(access)
      }
    }
    return found
  }

  /// Whether every row that fulfils a branch is in an index.
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
    // Rows with a value without a key are not in it.
    return declaration.fields.allSatisfy { field in
      field.keyType.hasKeyForEachValue || branch.set(of: field.path).map { !$0.hasUnkeyed } ?? false
    }
  }

  /// One term on an element of the field.
  private func elements(
    _ slot: Int, _ declaration: IndexDeclaration<Format.Instance>, _ branch: Branch
  ) -> [Access] {
    let path = declaration.fields[0].path
    return branch.others.compactMap { term, isNegated in
      guard !isNegated, term.path == path, case .element = term.question, let set = term.keys else { return nil }
      return Access(
        source: .index(slot), ranges: set.ranges, boundCount: 1, pointCount: 1,
        isExact: branch.sets.isEmpty && branch.others.count == 1,
        order: query.order.isEmpty ? .forward : rowOrder)
    }
  }

  /// The ranges that the first fields of an index are bounded to.
  private func bounded(
    _ slot: Int, _ declaration: IndexDeclaration<Format.Instance>, _ branch: Branch
  ) -> Access? {
    var ranges = [KeySet.Range(lower: [], upper: nil)]
    var (boundCount, pointCount, fixedCount) = (0, 0, 0)
    for field in declaration.fields {
      guard let set = branch.set(of: field.path), !set.hasUnkeyed || field.keyType.hasKeyForEachValue else { break }
      let isPoints = set.ranges.allSatisfy(\.isPoint)
      guard let values = field.isDescending ? (isPoints ? set.descending : nil) : set.ranges,
        ranges.count * values.count <= Self.rangesMaximum
      else { break }
      ranges = ranges.flatMap { first in values.map { $0.following(first.lower) } }
      boundCount += 1
      guard isPoints else { break }
      if fixedCount == pointCount, values.count == 1 { fixedCount += 1 }
      pointCount += 1
    }
    let isExact = boundCount == branch.sets.count && branch.others.isEmpty
    return Access(
      source: .index(slot), ranges: ranges, boundCount: boundCount, pointCount: pointCount, isExact: isExact,
      order: order(of: declaration, fixed: fixedCount))
  }

  /// Whether the entries of ascending ranges are in the order of the query. Where the first `fixed` fields have one value, they
  /// are in the order of the next ones.
  private func order(of declaration: IndexDeclaration<Format.Instance>, fixed: Int) -> Access.Order? {
    let fixedPaths = Set(declaration.fields[..<fixed].map(\.path))
    let wanted = query.order.filter { !fixedPaths.contains($0.path) }
    guard let last = query.order.last else { return .forward }
    var rest = declaration.fields[fixed...]
    var direction: Access.Order?
    for order in wanted {
      // Sorted by the key of the row, where no field is left: ties are so.
      if rest.isEmpty, Format.isIdentifier(order.path) {
        let next: Access.Order = order.isDescending ? .reverse : .forward
        return direction == nil || direction == next ? next : nil
      }
      guard let field = rest.popFirst(), field.path == order.path else { return nil }
      let next: Access.Order = field.isDescending == order.isDescending ? .forward : .reverse
      if let direction, direction != next { return nil }
      direction = next
    }
    // Ties are in the order of the rows' keys, in the direction of the last: fields between would come first.
    let tie: Access.Order = last.isDescending ? .reverse : .forward
    guard rest.isEmpty, direction == nil || direction == tie else { return nil }
    return tie
  }
}

extension KeySet.Range {
  /// Whether it has the keys that begin with one value.
  var isPoint: Bool {
    upper.map { $0.count == lower.count + 1 && $0.last == KeyTag.escape && $0.dropLast() == lower[...] } ?? false
  }

  /// The range of the keys that are `parts` and then one of this.
  func following(_ parts: [UInt8]) -> KeySet.Range {
    KeySet.Range(
      lower: parts + lower, upper: upper.map { parts + $0 } ?? (parts.isEmpty ? nil : KeyRange.end(ofParts: parts)))
  }
}

extension KeySet {
  /// The same values where they sort the other way; nil where they can't be turned around. Points alone.
  var descending: [Range]? {
    var turned: [Range] = []
    for range in ranges.reversed() {
      guard let parts = try? KeyPart.parts(of: range.lower), parts.count == 1, let bytes = range.lower.descendingPart
      else { return nil }
      turned.append(Range(lower: bytes, upper: KeyRange.end(ofParts: bytes)))
    }
    return turned
  }
}

extension [UInt8] {
  /// One part of a key as `KeyEncoder.encode(descending:)` writes it.
  fileprivate var descendingPart: [UInt8]? {
    guard let tag = first(where: { $0 != KeyTag.some }) else { return nil }
    let isText = tag == KeyTag.string || tag == KeyTag.data
    return (isText ? self + [KeyTag.terminator] : self).map { ~$0 }
  }
}

extension FieldPath {
  /// As messages name it.
  var text: String {
    switch name {
    case .stored(let name): name
    case .computed: "a computed field"
    case .chained(let name): name
    }
  }
}

extension KeyType {
  /// Whether every value of such a type has a key: of doubles, for instance, a NaN has none.
  var hasKeyForEachValue: Bool {
    let names = name.split { !$0.isLetter && !$0.isNumber }
    let safe: Set<Substring> = [
      "string", "int", "bool", "data", "uuid", "duration", "optional", "descending", "compound",
    ]
    return names.allSatisfy { safe.contains($0) }
  }
}

extension StoreFormat {
  /// Whether a path leads to what rows are found by.
  static func isIdentifier(_ path: FieldPath) -> Bool {
    isIdentifiedByID && type(of: path.path).valueType == Identifier.self && path.name == .stored("id")
  }
}

extension IndexesTransaction {
  /// Whether an index has all rows and can be used.
  func isUsable(_ slot: Int) throws -> Bool {
    guard try part(slot).isReady else { return false }
    return try !definition.plans[slot].isUnique || collisions(of: slot) == nil
  }
}
