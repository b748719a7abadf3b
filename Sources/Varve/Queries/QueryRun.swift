/// A query in one transaction, with its plan and the data that it reads.
struct QueryRun<Format: StoreFormat> {
  let query: StoreQuery<Format>
  let info: CollectionInfo
  let transaction: ReadTransaction
  let indexes: IndexesTransaction<Format.Instance>?
  private let planner: QueryPlanner<Format>
  let plan: QueryPlan<Format>

  /// Plans a query. Returns nil if the collection does not exist. Throws `.notIndexed`, `.queryTooComplex`,
  /// `.invalidArgument`.
  ///
  /// `choose` makes the plan, so that tests can compare several.
  init?(
    _ query: StoreQuery<Format>, _ tx: ReadTransaction,
    choose: (QueryPlanner<Format>) throws -> QueryPlan<Format> = { try $0.plan() }
  ) throws {
    if let maximum = query.maximum, maximum < 0 {
      throw DatabaseError(.invalidArgument, "the limit of a query is \(maximum); it must not be negative")
    }
    let access = query.store.access
    guard let info = try access.collection(tx) else { return nil }
    let hasIndexes = try !DeclaredIndexes<Format>.found().list.isEmpty
    indexes = hasIndexes ? try tx.indexes(of: access.name, named: info.indexesName, Format.Instance.self) : nil
    self.query = query
    self.info = info
    transaction = tx
    planner = QueryPlanner(query, indexes, info, tx)
    plan = try choose(planner)
  }

  /// Begins to read. `readsRows` is false if only the keys of the rows are needed.
  func begin(readsRows: Bool = true) throws -> QueryScan<Format> {
    let keysOnly = !readsRows && !plan.filters && !plan.sorts && !Format.decodesEachRow
    return QueryScan(query, plan, info, transaction, try entries(keysOnly: keysOnly))
  }

  /// Returns the entries that the plan reads.
  func entries(keysOnly: Bool) throws -> QueryEntries {
    var branches: [BranchScan] = []
    for branch in plan.branches {
      let scans = try branch.accesses.compactMap { try scan($0, keysOnly: keysOnly) }
      // If the part of an index does not exist, it has no entries.
      if scans.count == branch.accesses.count { branches.append(BranchScan(scans, prefixSize: info.prefix.count)) }
    }
    return QueryEntries(
      branches, isMerged: plan.isMerged, isReverse: plan.isReverse, repeatsRows: plan.repeatsRows)
  }

  private func scan(_ access: QueryPlan<Format>.Access, keysOnly: Bool) throws -> AccessScan? {
    var isDirect: Bool?
    if case .index(let slot) = access.source { isDirect = indexes?.definition.plans[slot].isDirect ?? false }
    var family: StorageFamily?
    var ranges: [StorageRange] = []
    let start = plan.sorts ? nil : query.page?.start?.entry(access, query, info)
    for range in access.ranges {
      let (found, whole) = try planner.location(range, access.source)
      guard let found else { return nil }
      family = found
      var range = whole
      if let start, !access.turnsTies { plan.isReverse ? range.end(before: start) : range.begin(after: start) }
      if !range.isEmpty { ranges.append(range) }
    }
    guard let family else { return nil }
    let mayLeaveOut = plan.filters || plan.sorts || Format.decodesEachRow
    return AccessScan(
      ranges, in: family, of: transaction.view(of: family), isDirect: isDirect, fixed: access.fixed,
      prefix: info.prefix, isReverse: plan.isReverse,
      ties: access.turnsTies && !plan.sorts ? .turned(after: start) : .same,
      keysOnly: keysOnly || isDirect == false, wanted: mayLeaveOut ? nil : query.maximum)
  }

  var explanation: QueryExplanation {
    let accesses = plan.branches.flatMap { branch in
      branch.accesses.enumerated().map { number, access in
        var index: String?
        if case .index(let slot) = access.source { index = indexes?.definition.plans[slot].name }
        return QueryExplanation.Access(
          index: index, rangeCount: access.ranges.count, boundFields: access.boundCount, filters: !branch.isExact,
          isIntersected: number > 0)
      }
    }
    let order: QueryExplanation.Order =
      query.order.isEmpty ? .none : plan.sorts ? .sorted(limit: query.maximum) : .read
    return QueryExplanation(
      accesses: accesses, isMerged: plan.isMerged, order: order, decodesEachRow: Format.decodesEachRow)
  }
}

extension StorageRange {
  fileprivate mutating func begin(after key: [UInt8]) {
    if !ByteOrder.precedes(key, lower) { lower = key + [0] }
  }

  fileprivate mutating func end(before key: [UInt8]) {
    if upper.map({ ByteOrder.precedes(key, $0) }) ?? true { upper = key }
  }
}
