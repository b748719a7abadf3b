public import Foundation

/// A query of a store's instances: a condition, an order and a limit. It only runs when its results are requested.
///
/// ```swift
/// let query = books.query
///   .filter { $0.year.isIn(1950..<2000) && ($0.title.hasPrefix("The") || $0.tags.contains("x")) }
///   .sorted(by: \.year, descending: true)
///   .sorted(by: \.title)
///   .limit(20)
/// let some = try await query.fetch()
/// let plan = try await query.explain()
/// ```
///
/// # Which index
/// The condition is converted to a disjunction of branches. Each branch needs an index that bounds it: one whose first
/// field, or `id`, the branch compares, or tests for an element. Of several, the one with the fewest entries is used,
/// which is estimated by bounded reads. The parts of the condition that the index does not cover are tested on each
/// instance that it finds. A query with a branch that no index bounds throws `.notIndexed`, unless ``scan()`` was
/// called; a query without a condition iterates over all instances.
///
/// # Order
/// `sorted` may be called several times: the first call takes precedence. Ties are in the order of the identifiers, in
/// the direction of the last `sorted`. If an index has the order, instances are returned as they are read. Otherwise
/// their keys are sorted in memory: with a limit, at most twice as many keys as the limit, and without one, at most 64
/// MiB, above which `.sortTooLarge` is thrown. Without `sorted`, the order is that in which the plan finds the
/// instances. ``explain()`` reports the index that is used, and how the order is established.
///
/// # Values
/// A condition has the same result for an index, a row, and an instance (``Condition``). A row that is in no index
/// (``Store/unindexedRows(in:)``) is in the results to which it belongs: if there is one, all rows are read. What a row
/// that can't be decoded does to a result is up to the format: ``RowFormat/undecodable``.
///
/// A query is a value, equal to others of the same store with the same terms. Safe from any thread.
public struct StoreQuery<Format: StoreFormat>: Sendable {
  let store: Store<Format>
  private(set) var condition: Condition<Format.Instance>? {
    didSet { counted = CountedPlanCache() }
  }
  fileprivate(set) var order: [QueryOrder<Format.Instance>] = [] {
    didSet { counted = CountedPlanCache() }
  }
  fileprivate(set) var maximum: Int?
  private(set) var mayScan = false
  /// How counted indexes answer the condition and the order, which is determined at the first use.
  var counted = CountedPlanCache<Format>()
  /// The position of a page of the query, or nil for all instances.
  var page: QueryPosition?

  init(_ store: Store<Format>) { self.store = store }

  /// Returns the query with an additional condition.
  public func filter(_ body: (Fields<Format.Instance>) -> Condition<Format.Instance>) -> StoreQuery {
    filter(Condition(body))
  }

  /// Returns the query with the additional condition that a Boolean field is true: `filter { $0.isRead }`.
  public func filter(_ body: (Fields<Format.Instance>) -> Field<Format.Instance, Bool>) -> StoreQuery {
    filter(Condition(body))
  }

  /// Returns the query with an additional condition.
  public func filter(_ other: Condition<Format.Instance>) -> StoreQuery {
    var query = self
    query.condition = condition.map { $0 && other } ?? other
    return query
  }

  /// Returns the query ordered by a field, with nil first. Earlier orders take precedence: this one only applies to
  /// instances that are equal in those.
  public func sorted<Value: KeyCodable>(
    by path: any KeyPath<Format.Instance, Value> & Sendable, descending: Bool = false
  ) -> StoreQuery {
    sorted(QueryOrder(IndexField(path), isDescending: descending))
  }

  /// Returns the query ordered by a field in the syntax of conditions: `sorted { $0.home.city }`, also if `home` is
  /// optional.
  public func sorted<Value: KeyCodable>(
    descending: Bool = false, by field: (Fields<Format.Instance>) -> Field<Format.Instance, Value>
  ) -> StoreQuery {
    sorted(QueryOrder(IndexField(field(Fields())), isDescending: descending))
  }

  private func sorted(_ next: QueryOrder<Format.Instance>) -> StoreQuery {
    var query = self
    query.order.append(next)
    return query
  }

  /// Returns the query with a maximum number of instances. The smallest limit applies. A negative limit throws when the
  /// query runs.
  public func limit(_ count: Int) -> StoreQuery {
    var query = self
    query.maximum = Swift.min(count, maximum ?? count)
    return query
  }

  /// The query without an order and a limit.
  var unordered: StoreQuery {
    var query = self
    query.order = []
    query.maximum = nil
    return query
  }

  /// Whether instances have an order, whatever the plan.
  var isOrdered: Bool { !order.isEmpty || page != nil }
  /// Whether instances that are equal in the order are sorted by descending identifiers.
  var isTieDescending: Bool { order.last?.isDescending ?? page?.isBackward ?? false }

  /// The query in the opposite order.
  var reversed: StoreQuery {
    var query = self
    query.order = order.map(\.reversed)
    return query
  }

  /// Returns the query with permission to run if no index serves it. It may then read every instance.
  public func scan() -> StoreQuery {
    var query = self
    query.mayScan = true
    return query
  }
}

extension StoreQuery: Hashable {
  /// Returns whether both queries have the same store and the same terms.
  public static func == (left: StoreQuery, right: StoreQuery) -> Bool {
    left.store.database === right.store.database && left.store.collection == right.store.collection
      && left.condition == right.condition && left.order == right.order && left.maximum == right.maximum
      && left.mayScan == right.mayScan
  }

  /// Hashes the collection and the terms.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(store.collection)
    hasher.combine(condition)
    hasher.combine(order)
    hasher.combine(maximum)
    hasher.combine(mayScan)
  }
}

extension Store where Format: StoreFormat {
  /// A query of all instances of the store.
  public var query: StoreQuery<Format> { StoreQuery(self) }
}

/// A field by which instances are sorted.
struct QueryOrder<Instance>: Sendable, Hashable {
  let path: FieldPath
  let isDescending: Bool
  let encoder: FieldEncoder?

  init(_ field: IndexField<Instance>, isDescending: Bool) {
    path = field.path
    self.isDescending = isDescending != field.isDescending
    // The encoder of a descending field inverts the order already.
    encoder = field.encoder
    encoderIsDescending = field.isDescending
    keyType = field.keyType
  }

  let keyType: KeyType

  private let encoderIsDescending: Bool

  /// Appends the field of an instance so that bytes sort in the order of the query. A value that cannot be a key comes
  /// after all others, or before them if the order is descending.
  func append(_ instance: InstanceAddress, to encoder: inout KeyEncoder) {
    let start = encoder.bytes.count
    let isInverted = isDescending != encoderIsDescending
    if isInverted { encoder.invert() }
    defer { if isInverted { encoder.invert() } }
    do { try self.encoder?.append(instance, to: &encoder) } catch {
      encoder.truncate(to: start)
      encoder.append([isDescending ? 0x01 : 0xfe])
    }
  }

  /// The field in the opposite order.
  var reversed: QueryOrder { QueryOrder(self, isDescending: !isDescending) }

  private init(_ other: QueryOrder, isDescending: Bool) {
    path = other.path
    self.isDescending = isDescending
    encoder = other.encoder
    encoderIsDescending = other.encoderIsDescending
    keyType = other.keyType
  }

  /// Appends the field so that bytes sort ascending or descending by its values.
  func append(_ instance: InstanceAddress, descending: Bool, to encoder: inout KeyEncoder) {
    QueryOrder(self, isDescending: descending).append(instance, to: &encoder)
  }

  static func == (left: QueryOrder, right: QueryOrder) -> Bool {
    left.path == right.path && left.isDescending == right.isDescending
  }

  func hash(into hasher: inout Hasher) {
    hasher.combine(path)
    hasher.combine(isDescending)
  }
}

extension StoreQuery {
  /// Returns the query with the additional condition of a Foundation predicate. Throws `.invalidArgument` with a
  /// message that names the unsupported part if it cannot be converted to a condition.
  public func filter(_ predicate: Predicate<Format.Instance>) throws -> StoreQuery {
    filter(try Condition(predicate))
  }
}
