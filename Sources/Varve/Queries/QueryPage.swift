/// A page of a query's instances in its order, with cursors of its first and last instance.
public struct QueryPage<Format: StoreFormat>: Sendable {
  /// The instances, in the order of the query.
  public let instances: [Format.Instance]
  /// The position of the first instance, for ``StoreQuery/page(before:size:)``, or nil for an empty page.
  public let firstCursor: QueryCursor<Format>?
  /// The position of the last instance, for ``StoreQuery/page(after:size:)``, or nil for an empty page.
  public let lastCursor: QueryCursor<Format>?
  /// Whether there are more instances in the direction in which the page was read.
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
/// A page has the instances that are strictly after its cursor when it is read: an instance that was moved across the
/// cursor meanwhile may be returned twice or not at all, and every other instance exactly once. The instance of the
/// cursor may have been deleted. A query without `sorted` is read in the order of the identifiers, so that its pages
/// have an order.
///
/// A page that would end with stand-ins for rows that can't be decoded (``UndecodableRowPolicy/fallback(_:)``), which
/// an index keeps where the rows belong, ends before them, or is longer if it has nothing else.
///
/// Each method throws what ``StoreQuery/fetch(in:)`` does, `.invalidArgument` for a size below 1, a query with a limit,
/// and a cursor of another query, and `.cursorExpired` for a cursor whose fields had other types. Complexity: O(size)
/// if an index has the order, and otherwise O(n) in the instances that the query finds.
extension StoreQuery {
  // MARK: - Inside a transaction

  /// Returns the instances after a cursor, or the first ones if the cursor is nil.
  public func page(
    after cursor: QueryCursor<Format>? = nil, size: Int, in tx: ReadTransaction
  ) throws -> QueryPage<Format> {
    let (instances, hasMore) = try page(cursor, isBackward: false, size, tx)
    return makePage(instances, hasMore: hasMore)
  }

  /// Returns the instances next to a cursor that come before it, or the last ones if the cursor is nil, in the order of
  /// the query.
  public func page(before cursor: QueryCursor<Format>?, size: Int, in tx: ReadTransaction) throws -> QueryPage<Format> {
    let (instances, hasMore) = try reversed.page(cursor, isBackward: true, size, tx)
    return makePage(instances.reversed(), hasMore: hasMore)
  }

  // MARK: - In a transaction of its own

  /// Returns the instances after a cursor, or the first ones if the cursor is nil.
  public func page(after cursor: QueryCursor<Format>? = nil, size: Int) async throws -> QueryPage<Format> {
    try await store.database.read { tx in try page(after: cursor, size: size, in: tx) }
  }

  /// Returns the instances next to a cursor that come before it, or the last ones if the cursor is nil, in the order of
  /// the query.
  public func page(before cursor: QueryCursor<Format>?, size: Int) async throws -> QueryPage<Format> {
    try await store.database.read { tx in try page(before: cursor, size: size, in: tx) }
  }

  // MARK: -

  /// An instance of a page. One that is not placed is a stand-in, whose fields are not those of its place.
  private typealias Found = (instance: Format.Instance, rowKey: [UInt8], isPlaced: Bool)

  private func page(
    _ cursor: QueryCursor<Format>?, isBackward: Bool, _ size: Int, _ tx: ReadTransaction
  ) throws -> (instances: [Found], hasMore: Bool) {
    guard size > 0 else {
      throw DatabaseError(.invalidArgument, "the size of a page is \(size); it must be at least 1")
    }
    guard maximum == nil else {
      throw DatabaseError(
        .invalidArgument, "the query has a limit, and pages are limited by `size:` alone: leave out `limit`")
    }
    let forward = isBackward ? reversed : self
    if let cursor { try cursor.check(forward) }
    var query = limit(size == .max ? size : size + 1)
    query.page = QueryPosition(start: cursor?.anchor, isBackward: isBackward)
    guard let run = try QueryRun(query, tx) else { return ([], false) }
    var scan = try run.begin()
    var instances: [Found] = []
    while instances.count < size, let (instance, key, _) = try scan.nextRow() {
      instances.append((instance, Array(key[run.info.prefix.count...]), try run.isPlaced(key)))
    }
    let hasMore = try instances.count == size && scan.nextRow() != nil
    guard hasMore, instances.last?.isPlaced == false else { return (instances, hasMore) }
    // The next page begins after an instance that has the fields of its place.
    if let last = instances.lastIndex(where: \.isPlaced) { return (Array(instances[...last]), true) }
    let (larger, isOverflow) = size.multipliedReportingOverflow(by: 2)
    return try page(cursor, isBackward: isBackward, isOverflow ? .max : larger, tx)
  }

  private func makePage(_ instances: [Found], hasMore: Bool) -> QueryPage<Format> {
    func cursor(_ found: Found?) -> QueryCursor<Format>? {
      found.map { QueryCursor(self, anchor($0.instance, rowKey: $0.rowKey)) }
    }
    return QueryPage(
      instances: instances.map(\.instance),
      firstCursor: cursor(instances.first(where: \.isPlaced) ?? instances.first),
      lastCursor: cursor(instances.last(where: \.isPlaced) ?? instances.last),
      hasMore: hasMore)
  }
}

extension QueryRun {
  /// Returns whether the fields of a row's instance are those of its place in the order: those of a stand-in are not if
  /// an index has the order.
  fileprivate func isPlaced(_ key: [UInt8]) throws -> Bool {
    guard Format.undecodable.standIn != nil, !plan.sorts,
      plan.branches.contains(where: { $0.first.source != .rows }),
      let bytes = try transaction.value(of: key, in: info.objects)
    else { return true }
    do {
      _ = try query.store.access.instance(key, bytes, info) { try transaction.value(of: key, in: info.metadata) }
      return true
    } catch let error as DatabaseError where error.isOfUndecodableRow { return false }
  }
}
