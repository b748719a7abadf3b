/// Asking a query. Each call is one transaction by itself, or takes the one that it belongs to, whose own writes it sees.
///
/// Each throws what reading throws, `.notIndexed` where no index serves the query, `.queryTooComplex`, `.sortTooLarge`,
/// `.unknownExtension` where the database was opened without the format, and `.invalidArgument` for a negative limit.
extension StoreQuery {
  // MARK: - Inside of a transaction

  /// The instances.
  public func fetch(in tx: ReadTransaction) throws -> [Format.Instance] {
    guard let run = try QueryRun(self, tx) else { return [] }
    var scan = try run.begin()
    var instances: [Format.Instance] = []
    while let (instance, _) = try scan.next() { instances.append(instance) }
    return instances
  }

  /// The first instance; nil where there is none.
  public func first(in tx: ReadTransaction) throws -> Format.Instance? {
    guard let run = try QueryRun(limit(1), tx) else { return nil }
    var scan = try run.begin()
    return try scan.next()?.element
  }

  /// How many instances there are. Complexity: O(n) of the entries that are read; rows are read where an index does not say
  /// the whole condition.
  public func count(in tx: ReadTransaction) throws -> Int {
    guard let run = try QueryRun(self, tx) else { return 0 }
    var scan = try run.begin(readsRows: false)
    return try scan.count()
  }

  /// Whether there is an instance.
  public func exists(in tx: ReadTransaction) throws -> Bool {
    guard let run = try QueryRun(limit(1), tx) else { return false }
    var scan = try run.begin(readsRows: false)
    return try scan.nextKey() != nil
  }

  /// The identifiers of the instances. No row is read where an index says the whole condition and the order.
  public func ids(in tx: ReadTransaction) throws -> [Format.Identifier] {
    guard let run = try QueryRun(self, tx) else { return [] }
    var scan = try run.begin(readsRows: false)
    var ids: [Format.Identifier] = []
    while let key = try scan.nextKeyInOrder() { ids.append(try run.info.key(of: key).key()) }
    return ids
  }

  /// How the query finds its instances. Nothing is read but what the plan is chosen by.
  public func explain(in tx: ReadTransaction) throws -> QueryExplanation {
    try QueryRun(self, tx)?.explanation ?? QueryExplanation(accesses: [], isMerged: false, order: .none)
  }

  // MARK: - By itself

  /// The instances.
  public func fetch() async throws -> [Format.Instance] {
    try await store.database.read { tx in try fetch(in: tx) }
  }

  /// The first instance; nil where there is none.
  public func first() async throws -> Format.Instance? {
    try await store.database.read { tx in try first(in: tx) }
  }

  /// How many instances there are.
  public func count() async throws -> Int { try await store.database.read { tx in try count(in: tx) } }

  /// Whether there is an instance.
  public func exists() async throws -> Bool { try await store.database.read { tx in try exists(in: tx) } }

  /// The identifiers of the instances.
  public func ids() async throws -> [Format.Identifier] {
    try await store.database.read { tx in try ids(in: tx) }
  }

  /// The instances as they are now, read as they are iterated.
  public func rows() -> Rows<Format.Instance> {
    Rows(
      RowSource(store.database.core) { tx in
        guard let run = try QueryRun(self, tx) else { return EmptyScan<Format.Instance>() }
        return try run.begin()
      })
  }

  /// How the query finds its instances.
  public func explain() async throws -> QueryExplanation {
    try await store.database.read { tx in try explain(in: tx) }
  }
}
