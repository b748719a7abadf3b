/// Some instances of a query in its order, and where they begin and end in it.
public struct QueryPage<Format: StoreFormat>: Sendable {
  /// The instances, in the order of the query.
  public let instances: [Format.Instance]
  /// Where the first of them stands: for ``StoreQuery/page(before:size:)``. Nil of an empty page.
  public let firstCursor: QueryCursor<Format>?
  /// Where the last of them stands: for ``StoreQuery/page(after:size:)``. Nil of an empty page.
  public let lastCursor: QueryCursor<Format>?
  /// Whether there was more in the direction in which the page was read.
  public let hasMore: Bool
}

/// Reading a query page by page.
///
/// ```swift
/// var page = try await query.page(size: 50)
/// while let cursor = page.lastCursor, page.hasMore {
///   page = try await query.page(after: cursor, size: 50)
/// }
/// ```
///
/// A page has what is strictly after its cursor when it is read: an instance that was moved across the cursor
/// meanwhile may come twice or not at all, every other exactly once. It need not be there any more. A query without `sorted` is
/// read in the order of the identifiers, so that pages have one.
///
/// Each throws what ``StoreQuery/fetch(in:)`` does, `.invalidArgument` for a size below 1, a query with a limit, and a
/// cursor of another query, and `.cursorExpired` for a cursor of fields that had other types.
/// Complexity: O(size) where an index has the order, and else O(n) of what the query finds.
extension StoreQuery {
  // MARK: - Inside of a transaction

  /// The instances after a cursor; of nil, the first ones.
  public func page(
    after cursor: QueryCursor<Format>? = nil, size: Int, in tx: ReadTransaction
  ) throws -> QueryPage<Format> {
    let (instances, hasMore) = try page(cursor, isBackward: false, size, tx)
    return makePage(instances, hasMore: hasMore)
  }

  /// The instances before a cursor, those that are next to it; of nil, the last ones. They are in the order of the query.
  public func page(before cursor: QueryCursor<Format>?, size: Int, in tx: ReadTransaction) throws -> QueryPage<Format> {
    let (instances, hasMore) = try reversed.page(cursor, isBackward: true, size, tx)
    return makePage(instances.reversed(), hasMore: hasMore)
  }

  // MARK: - By itself

  /// The instances after a cursor; of nil, the first ones.
  public func page(after cursor: QueryCursor<Format>? = nil, size: Int) async throws -> QueryPage<Format> {
    try await store.database.read { tx in try page(after: cursor, size: size, in: tx) }
  }

  /// The instances before a cursor, those that are next to it; of nil, the last ones. They are in the order of the query.
  public func page(before cursor: QueryCursor<Format>?, size: Int) async throws -> QueryPage<Format> {
    try await store.database.read { tx in try page(before: cursor, size: size, in: tx) }
  }

  // MARK: -

  private typealias Found = (instance: Format.Instance, rowKey: [UInt8])

  private func page(
    _ cursor: QueryCursor<Format>?, isBackward: Bool, _ size: Int, _ tx: ReadTransaction
  ) throws -> (instances: [Found], hasMore: Bool) {
    guard size > 0 else {
      throw DatabaseError(.invalidArgument, "the size of a page is \(size); it must be at least 1")
    }
    guard maximum == nil else {
      throw DatabaseError(
        .invalidArgument, "a query that is read page by page has a limit; say the size of the page alone")
    }
    let forward = isBackward ? reversed : self
    if let cursor { try cursor.check(forward) }
    var query = limit(size == .max ? size : size + 1)
    query.page = QueryPosition(start: cursor?.anchor, isBackward: isBackward)
    guard let run = try QueryRun(query, tx) else { return ([], false) }
    var scan = try run.begin()
    var instances: [Found] = []
    while instances.count < size, let (instance, key, _) = try scan.nextRow() {
      instances.append((instance, Array(key[run.info.prefix.count...])))
    }
    return (instances, try instances.count == size && scan.nextRow() != nil)
  }

  private func makePage(_ instances: [Found], hasMore: Bool) -> QueryPage<Format> {
    func cursor(_ found: Found?) -> QueryCursor<Format>? {
      found.map { QueryCursor(self, anchor($0.instance, rowKey: $0.rowKey)) }
    }
    return QueryPage(
      instances: instances.map(\.instance), firstCursor: cursor(instances.first), lastCursor: cursor(instances.last),
      hasMore: hasMore)
  }
}
