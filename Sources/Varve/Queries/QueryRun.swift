/// A query in one transaction: its plan, and what it reads.
struct QueryRun<Format: StoreFormat> {
  let query: StoreQuery<Format>
  let info: CollectionInfo
  private let transaction: ReadTransaction
  private let indexes: IndexesTransaction<Format.Instance>?
  private let planner: QueryPlanner<Format>
  let plan: QueryPlan<Format>

  /// Nil where nothing was ever put into the collection. Throws `.notIndexed`, `.queryTooComplex`, `.invalidArgument`.
  init?(_ query: StoreQuery<Format>, _ tx: ReadTransaction) throws {
    if let maximum = query.maximum, maximum < 0 {
      throw DatabaseError(.invalidArgument, "the limit of a query is \(maximum); it must not be negative")
    }
    let access = query.store.access
    guard let info = try access.collection(tx) else { return nil }
    let hasIndexes = try !FormatIndexes<Format>.found().list.isEmpty
    indexes = hasIndexes ? try tx.indexes(of: access.name, named: info.indexesName, Format.Instance.self) : nil
    self.query = query
    self.info = info
    transaction = tx
    planner = QueryPlanner(query, indexes, info, tx)
    plan = try planner.plan()
  }

  func begin() throws -> QueryScan<Format> {
    try QueryScan(query, plan, planner, indexes, info, transaction)
  }

  var explanation: QueryExplanation {
    let accesses = plan.accesses.map { access in
      var index: String?
      if case .index(let slot) = access.source { index = indexes?.definition.plans[slot].name }
      return QueryExplanation.Access(
        index: index, rangeCount: access.ranges.count, boundFields: access.boundCount, filters: !access.isExact)
    }
    let order: QueryExplanation.Order =
      query.order.isEmpty ? .none : plan.sorts ? .sorted(limit: query.maximum) : .read
    return QueryExplanation(accesses: accesses, order: order)
  }
}
