/// Runs a query. Each call is a transaction of its own, or runs in the given one, whose writes it sees.
///
/// Each method throws what reading throws, `.notIndexed` if no index serves the query, `.queryTooComplex`,
/// `.sortTooLarge`, `.unknownExtension` if the database was opened without the format, and `.invalidArgument` for a
/// negative limit.
extension StoreQuery {
  // MARK: - Inside a transaction

  /// Returns the instances.
  public func fetch(in tx: ReadTransaction) throws -> [Format.Instance] {
    guard let run = try QueryRun(self, tx) else { return [] }
    var scan = try run.begin()
    var instances: [Format.Instance] = []
    while let (instance, _) = try scan.next() { instances.append(instance) }
    return instances
  }

  /// Returns the first instance, or nil if there is none.
  public func first(in tx: ReadTransaction) throws -> Format.Instance? {
    guard let run = try QueryRun(limit(1), tx) else { return nil }
    var scan = try run.begin()
    return try scan.next()?.element
  }

  /// Returns the number of instances. Complexity: O(log n) if the condition is one range of a counted index; otherwise
  /// O(n) in the entries that are read, and rows are only read if an index does not cover the whole condition.
  public func count(in tx: ReadTransaction) throws -> Int {
    if let count = try countedCount(tx) { return count }
    guard let run = try QueryRun(self, tx) else { return 0 }
    var scan = try run.begin(readsRows: false)
    return try scan.count()
  }

  /// Returns whether there is an instance.
  public func exists(in tx: ReadTransaction) throws -> Bool {
    guard let run = try QueryRun(limit(1), tx) else { return false }
    var scan = try run.begin(readsRows: false)
    return try scan.nextKey() != nil
  }

  /// Returns the identifiers of the instances. No row is read if an index covers the whole condition and the order.
  public func ids(in tx: ReadTransaction) throws -> [Format.Identifier] {
    guard let run = try QueryRun(self, tx) else { return [] }
    var scan = try run.begin(readsRows: false)
    var ids: [Format.Identifier] = []
    while let key = try scan.nextKeyInOrder() { ids.append(try run.info.key(of: key).key()) }
    return ids
  }

  /// Returns how the query finds its instances. Only the data for choosing the plan is read.
  public func explain(in tx: ReadTransaction) throws -> QueryExplanation {
    guard let run = try QueryRun(self, tx) else {
      return QueryExplanation(accesses: [], isMerged: false, order: .none)
    }
    var explanation = run.explanation
    if let counted = try countedIndex(tx) {
      explanation.hasOffsets = counted.hasOffsets
      if counted.counts { explanation.countedIndex = counted.name }
    }
    return explanation
  }

  // MARK: - In a transaction of its own

  /// Returns the instances.
  public func fetch() async throws -> [Format.Instance] {
    try await store.database.read { tx in try fetch(in: tx) }
  }

  /// Returns the first instance, or nil if there is none.
  public func first() async throws -> Format.Instance? {
    try await store.database.read { tx in try first(in: tx) }
  }

  /// Returns the number of instances.
  public func count() async throws -> Int { try await store.database.read { tx in try count(in: tx) } }

  /// Returns whether there is an instance.
  public func exists() async throws -> Bool { try await store.database.read { tx in try exists(in: tx) } }

  /// Returns the identifiers of the instances.
  public func ids() async throws -> [Format.Identifier] {
    try await store.database.read { tx in try ids(in: tx) }
  }

  /// Returns a sequence of the current instances, which are read during the iteration.
  public func rows() -> Rows<Format.Instance> {
    Rows(
      RowSource(store.database.core) { tx in
        guard let run = try QueryRun(self, tx) else { return EmptyScan<Format.Instance>() }
        return try run.begin()
      })
  }

  /// Returns how the query finds its instances.
  public func explain() async throws -> QueryExplanation {
    try await store.database.read { tx in try explain(in: tx) }
  }
}
