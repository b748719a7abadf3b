/// Groups the instances of a query by the elements of a field with several values: how many instances have each tag.
///
/// Groups are in ascending order. Equal elements of one instance count once, and an element without a key, such as a
/// NaN, has no group. Each method throws what ``StoreQuery/fetch(in:)`` does. Complexity: O(n). A query without a
/// condition and a limit reads only the entries of an index of the elements, if there is one and each row is in it.
extension StoreQuery {
  /// Returns the elements of a field with several values, each with the number of instances that have it.
  public func grouped<Values: Sequence & SendableMetatype>(
    byElementsOf path: any KeyPath<Format.Instance, Values> & Sendable, in tx: ReadTransaction
  ) throws -> [QueryGroup<Values.Element>] where Values.Element: KeyCodable {
    try grouped(byElementsAt: FieldPath(path: path), tx) { $0[keyPath: path] }
  }

  /// Returns the elements of an optional field with several values, each with the number of instances that have it. A
  /// field that is nil has no elements.
  public func grouped<Values: Sequence & SendableMetatype>(
    byElementsOf path: any KeyPath<Format.Instance, Values?> & Sendable, in tx: ReadTransaction
  ) throws -> [QueryGroup<Values.Element>] where Values.Element: KeyCodable {
    try grouped(byElementsAt: FieldPath(path: path), tx) { $0[keyPath: path] }
  }

  /// Returns the elements of a field with several values, each with the number of instances that have it.
  public func grouped<Values: Sequence & SendableMetatype>(
    byElementsOf path: any KeyPath<Format.Instance, Values> & Sendable
  ) async throws -> [QueryGroup<Values.Element>] where Values.Element: KeyCodable {
    try await store.database.read { tx in try grouped(byElementsOf: path, in: tx) }
  }

  /// Returns the elements of an optional field with several values, each with the number of instances that have it.
  public func grouped<Values: Sequence & SendableMetatype>(
    byElementsOf path: any KeyPath<Format.Instance, Values?> & Sendable
  ) async throws -> [QueryGroup<Values.Element>] where Values.Element: KeyCodable {
    try await store.database.read { tx in try grouped(byElementsOf: path, in: tx) }
  }

  // MARK: -

  private func grouped<Values: Sequence>(
    byElementsAt path: FieldPath, _ tx: ReadTransaction, _ values: (Format.Instance) -> Values?
  ) throws -> [QueryGroup<Values.Element>] where Values.Element: KeyCodable {
    var isIndexed = false
    let run = try QueryRun(maximum == nil ? unordered : self, tx) { planner in
      guard let plan = try planner.plan(ofElementsAt: path) else { return try planner.plan() }
      isIndexed = true
      return plan
    }
    guard let run else { return [] }
    if isIndexed { return try Self.grouped(run) }
    var groups = Groups<Values.Element, Void>()
    var scan = try run.begin()
    while let (instance, _, _) = try scan.nextRow() {
      guard let values = values(instance) else { continue }
      for element in Set(values) { groups.add(element, ()) { _ in } }
    }
    return groups.sorted { QueryGroup(value: $0, count: $1) }
  }

  /// Counts the entries of each value of an index, which are in the order of the values.
  private static func grouped<Value: KeyCodable>(_ run: QueryRun<Format>) throws -> [QueryGroup<Value>] {
    guard var entries = try run.entries(keysOnly: true).only else { return [] }
    var groups: [QueryGroup<Value>] = []
    var (value, count) = ([UInt8](), 0)
    func endGroup() throws {
      if count > 0 { groups.append(QueryGroup(value: try Value.decoded(from: value), count: count)) }
    }
    while let next = try entries.withNext({ key, _ in
      key.extracting(0..<(try IndexEntry.rowKey(in: key).lowerBound)).copied
    }) {
      if next != value {
        try endGroup()
        (value, count) = (next, 0)
      }
      count += 1
    }
    try endGroup()
    return groups
  }
}

extension QueryPlanner {
  /// Returns the plan that reads all entries of an index of the elements of a field, for a query without a condition
  /// and a limit; nil if there is no such index with every row.
  fileprivate func plan(ofElementsAt path: FieldPath) throws -> QueryPlan<Format>? {
    guard !Format.decodesEachRow, query.condition == nil, query.maximum == nil, let indexes, try indexes.hasAllRows()
    else { return nil }
    let slot = try indexes.definition.indexes.indices.first { slot in
      let declaration = indexes.definition.indexes[slot].declaration
      return try declaration.kind.hasSeveralValues && declaration.condition == nil
        && declaration.fields.first?.path == path && indexes.isUsable(slot)
    }
    return slot.map { slot in
      let access = Access(source: .index(slot), ranges: KeySet.all.ranges)
      return QueryPlan(branches: [QueryPlan.Branch(accesses: [access], isExact: true)], sorts: false, isMerged: false)
    }
  }
}
