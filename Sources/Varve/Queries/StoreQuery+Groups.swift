/// A value of a field, and the instances that have it.
public struct QueryGroup<Value: Sendable>: Sendable {
  /// The value.
  public let value: Value
  /// How many instances have it.
  public let count: Int
}

/// A value of a field, and the sum of another field of the instances that have it.
public struct SummedGroup<Value: Sendable, Sum: Sendable>: Sendable {
  /// The value.
  public let value: Value
  /// How many instances have it.
  public let count: Int
  /// The sum of the other field; nil adds nothing.
  public let sum: Sum
}

extension QueryGroup: Equatable where Value: Equatable {}
extension SummedGroup: Equatable where Value: Equatable, Sum: Equatable {}

/// The instances of a query by the values of a field: groups are ascending, and nil is first. A value without a key, as a NaN,
/// has no group. Of a query with a limit, the instances that it keeps are grouped.
///
/// Each throws what ``StoreQuery/fetch(in:)`` does. Complexity: O(n); no row is read where an index has the fields and the whole condition, and memory
/// is for the groups.
extension StoreQuery {
  // MARK: - Inside of a transaction

  /// The values of a field, with how many instances have each.
  public func grouped<Value: KeyCodable>(
    by path: any KeyPath<Format.Instance, Value> & Sendable, in tx: ReadTransaction
  ) throws -> [QueryGroup<Value>] {
    var groups = Groups<Value, Void>()
    let field = QueryOrder(IndexField(path), isDescending: false)
    try QueryValues(maximum == nil ? unordered : self, [field], tx)?.forEach(path) { groups.add($0, ()) { _ in } }
    return groups.sorted { QueryGroup(value: $0, count: $1) }
  }

  /// The elements of a field with several values, with how many instances have each.
  public func grouped<Values: Sequence & SendableMetatype>(
    byElementsOf path: any KeyPath<Format.Instance, Values> & Sendable, in tx: ReadTransaction
  ) throws -> [QueryGroup<Values.Element>] where Values.Element: KeyCodable {
    var groups = Groups<Values.Element, Void>()
    guard let run = try QueryRun(maximum == nil ? unordered : self, tx) else { return [] }
    var scan = try run.begin()
    while let (instance, _, _) = try scan.nextRow() {
      // Equal elements of an instance are one.
      for element in Set(instance[keyPath: path]) { groups.add(element, ()) { _ in } }
    }
    return groups.sorted { QueryGroup(value: $0, count: $1) }
  }

  /// The values of a field, with how many instances have each, and the sum of another field. Throws `.sumTooLarge` where an
  /// integer can't be so large.
  public func grouped<Value: KeyCodable, Sum: SummableValue>(
    by path: any KeyPath<Format.Instance, Value> & Sendable,
    summing other: any KeyPath<Format.Instance, Sum> & Sendable, in tx: ReadTransaction
  ) throws -> [SummedGroup<Value, Sum>] {
    try grouped(path, other, tx) { $0 }
  }

  /// The same with the sum of an optional field: nil adds nothing.
  public func grouped<Value: KeyCodable, Sum: SummableValue>(
    by path: any KeyPath<Format.Instance, Value> & Sendable,
    summing other: any KeyPath<Format.Instance, Sum?> & Sendable, in tx: ReadTransaction
  ) throws -> [SummedGroup<Value, Sum>] {
    try grouped(path, other, tx) { $0 }
  }

  private func grouped<Value: KeyCodable, Field: KeyCodable, Sum: SummableValue>(
    _ path: any KeyPath<Format.Instance, Value> & Sendable, _ other: any KeyPath<Format.Instance, Field> & Sendable,
    _ tx: ReadTransaction, _ summand: (Field) -> Sum?
  ) throws -> [SummedGroup<Value, Sum>] {
    var groups = Groups<Value, Sum>()
    let fields = [
      QueryOrder(IndexField(path), isDescending: false), QueryOrder(IndexField(other), isDescending: false),
    ]
    try QueryValues(maximum == nil ? unordered : self, fields, tx)?.forEach(path, other) { value, field in
      try groups.add(value, .zero) { sum in try summand(field)?.add(to: &sum) }
    }
    return groups.sorted { SummedGroup(value: $0, count: $1, sum: $2) }
  }

  // MARK: - By itself

  /// The values of a field, with how many instances have each.
  public func grouped<Value: KeyCodable>(
    by path: any KeyPath<Format.Instance, Value> & Sendable
  ) async throws -> [QueryGroup<Value>] {
    try await store.database.read { tx in try grouped(by: path, in: tx) }
  }

  /// The elements of a field with several values, with how many instances have each.
  public func grouped<Values: Sequence & SendableMetatype>(
    byElementsOf path: any KeyPath<Format.Instance, Values> & Sendable
  ) async throws -> [QueryGroup<Values.Element>] where Values.Element: KeyCodable {
    try await store.database.read { tx in try grouped(byElementsOf: path, in: tx) }
  }

  /// The values of a field, with how many instances have each, and the sum of another field. Throws `.sumTooLarge` where an
  /// integer can't be so large.
  public func grouped<Value: KeyCodable, Sum: SummableValue>(
    by path: any KeyPath<Format.Instance, Value> & Sendable,
    summing other: any KeyPath<Format.Instance, Sum> & Sendable
  ) async throws -> [SummedGroup<Value, Sum>] {
    try await store.database.read { tx in try grouped(by: path, summing: other, in: tx) }
  }

  /// The same with the sum of an optional field: nil adds nothing.
  public func grouped<Value: KeyCodable, Sum: SummableValue>(
    by path: any KeyPath<Format.Instance, Value> & Sendable,
    summing other: any KeyPath<Format.Instance, Sum?> & Sendable
  ) async throws -> [SummedGroup<Value, Sum>] {
    try await store.database.read { tx in try grouped(by: path, summing: other, in: tx) }
  }
}

/// Groups by value.
private struct Groups<Value: KeyCodable, Sum> {
  private var groups: [Value: (count: Int, sum: Sum)] = [:]

  mutating func add(_ value: Value, _ zero: Sum, _ body: (inout Sum) throws -> Void) rethrows {
    var group = groups[value] ?? (0, zero)
    group.count += 1
    try body(&group.sum)
    groups[value] = group
  }

  /// In the order of the values' keys.
  func sorted<Group>(_ make: (Value, Int, Sum) -> Group) -> [Group] {
    sortedGroups.map { make($0.value, $0.count, $0.sum) }
  }

  func sorted<Group>(_ make: (Value, Int) -> Group) -> [Group] { sortedGroups.map { make($0.value, $0.count) } }

  private var sortedGroups: [(key: [UInt8], value: Value, count: Int, sum: Sum)] {
    groups.compactMap { value, group in
      (try? value.encoded()).map { (key: $0, value: value, count: group.count, sum: group.sum) }
    }.sorted { ByteOrder.precedes($0.key, $1.key) }
  }
}
