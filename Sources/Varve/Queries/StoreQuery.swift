public import Foundation

/// A question to a store: which instances, in which order, and how many of them. Nothing runs until it is asked.
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
/// The condition is brought into a form of branches, of which one has to hold. Each branch needs an index that bounds it: one
/// whose first field, or `id`, the branch compares, or tests for an element. Of several, that with the fewest entries is taken,
/// by bounded looks. What the index does not say is asked of
/// each instance that it finds. A query with a branch that no index bounds is refused, `.notIndexed`, unless it says
/// ``scan()``; one without a condition iterates all instances.
///
/// # Order
/// `sorted` may be said several times: the first counts most. Ties are in the order of the identifiers, in the direction of the
/// last `sorted`. Where an index has the order, instances come as they are read. Otherwise their keys are sorted in memory: of a
/// query with a limit no more than twice as many, of others at most 64 MiB, and then `.sortTooLarge` is thrown. Without `sorted` the order is
/// that in which the plan finds them. ``explain()`` says which index, and how the order is made.
///
/// # Values
/// A condition says the same by an index, of a row, and of an instance (``Condition``). Rows that are in no index because they
/// can't be decoded (``Store/unindexedRows(in:)``) are in no answer.
///
/// A value: equal to others of the same store that ask the same. Safe from any thread.
public struct StoreQuery<Format: StoreFormat>: Sendable {
  let store: Store<Format>
  private(set) var condition: Condition<Format.Instance>?
  fileprivate(set) var order: [QueryOrder<Format.Instance>] = []
  fileprivate(set) var maximum: Int?
  private(set) var mayScan = false
  /// Where a page of the query begins; nil for all of it.
  var page: QueryPosition?

  init(_ store: Store<Format>) { self.store = store }

  /// The instances of the query that also fulfil a condition.
  public func filter(_ body: (Fields<Format.Instance>) -> Condition<Format.Instance>) -> StoreQuery {
    filter(Condition(body))
  }

  /// The instances of the query of which a field of Booleans is true: `filter { $0.isRead }`.
  public func filter(_ body: (Fields<Format.Instance>) -> Field<Format.Instance, Bool>) -> StoreQuery {
    filter(Condition(body))
  }

  /// The instances of the query that also fulfil a condition.
  public func filter(_ other: Condition<Format.Instance>) -> StoreQuery {
    var query = self
    query.condition = condition.map { $0 && other } ?? other
    return query
  }

  /// The instances in the order of a field; nil comes first. After what was said before, where instances are equal in that.
  public func sorted<Value: KeyCodable>(
    by path: any KeyPath<Format.Instance, Value> & Sendable, descending: Bool = false
  ) -> StoreQuery {
    sorted(QueryOrder(IndexField(path), isDescending: descending))
  }

  /// The same in the spelling of conditions: `sorted { $0.home.city }`, also where `home` is optional.
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

  /// So many instances at most. Of two limits the smaller counts. A negative one is refused when the query runs.
  public func limit(_ count: Int) -> StoreQuery {
    var query = self
    query.maximum = Swift.min(count, maximum ?? count)
    return query
  }

  /// The same instances without an order and a limit.
  var unordered: StoreQuery {
    var query = self
    query.order = []
    query.maximum = nil
    return query
  }

  /// Whether instances come in an order, whatever the plan.
  var isOrdered: Bool { !order.isEmpty || page != nil }
  /// Whether instances that are equal in the order come by descending identifiers.
  var isTieDescending: Bool { order.last?.isDescending ?? page?.isBackward ?? false }

  /// The same in the opposite order.
  var reversed: StoreQuery {
    var query = self
    query.order = order.map(\.reversed)
    return query
  }

  /// The query, also where no index serves it: it may read every instance.
  public func scan() -> StoreQuery {
    var query = self
    query.mayScan = true
    return query
  }
}

extension StoreQuery: Hashable {
  /// Whether both ask the same of the same store.
  public static func == (left: StoreQuery, right: StoreQuery) -> Bool {
    left.store.database === right.store.database && left.store.collection == right.store.collection
      && left.condition == right.condition && left.order == right.order && left.maximum == right.maximum
      && left.mayScan == right.mayScan
  }

  /// Hashes what is asked.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(store.collection)
    hasher.combine(condition)
    hasher.combine(order)
    hasher.combine(maximum)
    hasher.combine(mayScan)
  }
}

extension Store where Format: StoreFormat {
  /// All instances, to be asked for some of them.
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
    // Of a descending field the encoder already turns the order around.
    encoder = field.encoder
    encoderIsDescending = field.isDescending
    keyType = field.keyType
  }

  let keyType: KeyType

  private let encoderIsDescending: Bool

  /// Appends the field of an instance so that bytes sort as the query says. What can't be a key comes after everything else, or
  /// before it where the order is descending.
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

  /// The same field in the opposite order.
  var reversed: QueryOrder { QueryOrder(self, isDescending: !isDescending) }

  private init(_ other: QueryOrder, isDescending: Bool) {
    path = other.path
    self.isDescending = isDescending
    encoder = other.encoder
    encoderIsDescending = other.encoderIsDescending
    keyType = other.keyType
  }

  /// Appends the field so that bytes sort as its values do, or the other way.
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
  /// The instances of the query that also fulfil a predicate of Foundation. Throws `.invalidArgument` where a part of it has no
  /// condition, which the message names.
  public func filter(_ predicate: Predicate<Format.Instance>) throws -> StoreQuery {
    filter(try Condition(predicate))
  }
}
