/// Offsets of a query whose condition is one range of a counted index, which is in the order of the query:
///
/// ```swift
/// let byAuthor = Index(\.author, \.title, counted: true)                           // in the format
///
/// let shelf = books.query.filter { $0.author == "Austen" }.sorted(by: \.title)
/// let place = try shelf.offset(of: id, in: tx)
/// let shown = try shelf.fetch(at: 1_000..<1_020, in: tx)
/// ```
///
/// The condition may compare the first fields of the index with one value each, and restrict the next one to a range or
/// a prefix; the rest of the fields are those of the order, as the index has them or all reversed. A query without
/// `sorted` is in the order of the identifiers, as its pages are. A limit ends the result: offsets beyond it have no
/// instances.
///
/// Each method throws `.notIndexed` with the declaration that is missing, `.notReady` while the index is built,
/// `.notUnique`, `.queryTooComplex`, `.unknownExtension`, `.invalidArgument` for a negative limit, and what reading
/// throws. Offsets are those of the index: a row that can't be decoded has the offset of its entry, and `fetch(at:)`
/// then does with it what the format says (``RowFormat/undecodable``); a row that is in no index has none.
///
/// Complexity: O(log n), and a step for each instance. What does not depend on the transaction is determined
/// once for a query and its copies: keep the query, and call it often.
extension StoreQuery {
  // MARK: - Inside a transaction

  /// Returns the number of instances that come before one, or nil if it is not in the result.
  public func offset(of id: Format.Identifier, in tx: ReadTransaction) throws -> Int? {
    guard let (run, access) = try offsets(tx), let entry = try run.entry(of: id, in: access.ranges) else { return nil }
    let offset = try run.offset(of: entry, in: access.ranges[0], isReverse: access.isReverse)
    return maximum.map { offset < $0 } ?? true ? offset : nil
  }

  /// Returns the identifiers of the instances at some offsets, in order. Offsets that the result does not have are left
  /// out.
  public func ids(at offsets: Range<Int>, in tx: ReadTransaction) throws -> [Format.Identifier] {
    guard let (run, access) = try self.offsets(tx) else { return [] }
    return try run.ids(at: offsets.clamped(to: maximum), in: access.ranges[0], isReverse: access.isReverse)
  }

  /// Returns the instances at some offsets, in order. Offsets that the result does not have are left out.
  public func fetch(at offsets: Range<Int>, in tx: ReadTransaction) throws -> [Format.Instance] {
    guard let (run, access) = try self.offsets(tx) else { return [] }
    return try run.instances(at: offsets.clamped(to: maximum), in: access.ranges[0], isReverse: access.isReverse)
  }

  // MARK: - In a transaction of its own

  /// Returns the number of instances that come before one, or nil if it is not in the result.
  public func offset(of id: Format.Identifier) async throws -> Int? {
    try await store.database.read { tx in try offset(of: id, in: tx) }
  }

  /// Returns the identifiers of the instances at some offsets, in order. Offsets that the result does not have are left
  /// out.
  public func ids(at offsets: Range<Int>) async throws -> [Format.Identifier] {
    try await store.database.read { tx in try ids(at: offsets, in: tx) }
  }

  /// Returns the instances at some offsets, in order. Offsets that the result does not have are left out.
  public func fetch(at offsets: Range<Int>) async throws -> [Format.Instance] {
    try await store.database.read { tx in try fetch(at: offsets, in: tx) }
  }

  // MARK: -

  /// Returns the access that has the offsets, or nil if the result is empty.
  private func offsets(_ tx: ReadTransaction) throws -> (CountedRun<Format>, CountedAccess)? {
    try requireLimit()
    let plan = try counted.plan(of: self)
    if plan.isEmpty { return nil }
    return try opened(plan.ordered, tx) { plan.refusal(of: nil) }
  }

  /// Returns the number of instances from the counts of an index, or nil if no counted index that is in use has them.
  func countedCount(_ tx: ReadTransaction) throws -> Int? {
    guard page == nil, !Format.decodesEachRow, try DeclaredIndexes<Format>.found().hasCounted else { return nil }
    try requireLimit()
    let usable = try counted.plan(of: self).counting
    guard !usable.isEmpty, let (info, indexes) = try store.access.indexes(tx), try indexes.hasAllRows(),
      let access = try usable.first(where: { try indexes.isUsable($0.slot) })
    else { return nil }
    let run = CountedRun(store: store, info: info, transaction: tx, indexes: indexes, slot: access.slot)
    return Swift.min(try run.count(access.ranges), maximum ?? .max)
  }

  /// Returns the counted index of the query, whether its counts are those of the query, and whether it has offsets, or
  /// nil if there is none in use.
  func countedIndex(_ tx: ReadTransaction) throws -> (name: String, counts: Bool, hasOffsets: Bool)? {
    guard page == nil, try DeclaredIndexes<Format>.found().hasCounted else { return nil }
    let plan = try counted.plan(of: self)
    guard let (_, indexes) = try store.access.indexes(tx) else { return nil }
    let list = indexes.definition.plans
    let counts = try !Format.decodesEachRow && indexes.hasAllRows()
    if let access = try plan.ordered.first(where: { try indexes.isUsable($0.slot) }) {
      return (list[access.slot].name, counts, true)
    }
    return try plan.counting.first { try indexes.isUsable($0.slot) }.map { (list[$0.slot].name, counts, false) }
  }

  private func opened(
    _ accesses: [CountedAccess], _ tx: ReadTransaction, _ refusal: () -> DatabaseError
  ) throws -> (CountedRun<Format>, CountedAccess)? {
    guard let run = try CountedRun(store, anyOf: accesses.lazy.map(\.slot), tx, refusal: refusal),
      let access = accesses.first(where: { $0.slot == run.slot })
    else { return nil }
    return (run, access)
  }

  private func requireLimit() throws {
    if let maximum, maximum < 0 {
      throw DatabaseError(.invalidArgument, "the limit of a query is \(maximum); it must not be negative")
    }
  }
}
