/// A value of a field, and the number of instances that have it.
public struct QueryGroup<Value: Sendable>: Sendable {
  /// The value of the field.
  public let value: Value
  /// The number of instances that have the value.
  public let count: Int
}

/// A value of a field, and the sum of another field of the instances that have it.
public struct SummedGroup<Value: Sendable, Sum: Sendable>: Sendable {
  /// The value of the field.
  public let value: Value
  /// The number of instances that have the value.
  public let count: Int
  /// The sum of the other field, to which nil adds nothing.
  public let sum: Sum
}

extension QueryGroup: Equatable where Value: Equatable {}
extension SummedGroup: Equatable where Value: Equatable, Sum: Equatable {}

/// Groups the instances of a query by the values of a field. Groups are in ascending order, with nil first. A value
/// without a key, such as a NaN, has no group. For a query with a limit, the instances within the limit are grouped.
///
/// Each method throws what ``StoreQuery/fetch(in:)`` does. Complexity: O(n). No row is read if an index has the fields
/// and covers the whole condition, and memory is only needed for the groups.
extension StoreQuery {
  // MARK: - Inside a transaction

  /// Returns the values of a field, each with the number of instances that have it.
  public func grouped<Value: KeyCodable>(
    by path: any KeyPath<Format.Instance, Value> & Sendable, in tx: ReadTransaction
  ) throws -> [QueryGroup<Value>] {
    var groups = Groups<Value, Void>()
    let field = QueryOrder(IndexField(path), isDescending: false)
    try QueryValues(maximum == nil ? unordered : self, [field], tx)?.forEach(path) { groups.add($0, ()) { _ in } }
    return groups.sorted { QueryGroup(value: $0, count: $1) }
  }

  /// Returns the values of a field, each with the number of instances that have it and the sum of another field. Throws
  /// `.sumTooLarge` if the sum exceeds the integer type.
  public func grouped<Value: KeyCodable, Sum: SummableValue>(
    by path: any KeyPath<Format.Instance, Value> & Sendable,
    summing other: any KeyPath<Format.Instance, Sum> & Sendable, in tx: ReadTransaction
  ) throws -> [SummedGroup<Value, Sum>] {
    try grouped(path, other, tx) { $0 }
  }

  /// Returns the values of a field, each with the number of instances that have it and the sum of an optional field, to
  /// which nil adds nothing.
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

  // MARK: - In a transaction of its own

  /// Returns the values of a field, each with the number of instances that have it.
  public func grouped<Value: KeyCodable>(
    by path: any KeyPath<Format.Instance, Value> & Sendable
  ) async throws -> [QueryGroup<Value>] {
    try await store.database.read { tx in try grouped(by: path, in: tx) }
  }

  /// Returns the values of a field, each with the number of instances that have it and the sum of another field. Throws
  /// `.sumTooLarge` if the sum exceeds the integer type.
  public func grouped<Value: KeyCodable, Sum: SummableValue>(
    by path: any KeyPath<Format.Instance, Value> & Sendable,
    summing other: any KeyPath<Format.Instance, Sum> & Sendable
  ) async throws -> [SummedGroup<Value, Sum>] {
    try await store.database.read { tx in try grouped(by: path, summing: other, in: tx) }
  }

  /// Returns the values of a field, each with the number of instances that have it and the sum of an optional field, to
  /// which nil adds nothing.
  public func grouped<Value: KeyCodable, Sum: SummableValue>(
    by path: any KeyPath<Format.Instance, Value> & Sendable,
    summing other: any KeyPath<Format.Instance, Sum?> & Sendable
  ) async throws -> [SummedGroup<Value, Sum>] {
    try await store.database.read { tx in try grouped(by: path, summing: other, in: tx) }
  }
}

/// Collects groups by value.
struct Groups<Value: KeyCodable, Sum> {
  private var groups: [Value: (count: Int, sum: Sum)] = [:]

  mutating func add(_ value: Value, _ zero: Sum, _ body: (inout Sum) throws -> Void) rethrows {
    var group = groups[value] ?? (0, zero)
    group.count += 1
    try body(&group.sum)
    groups[value] = group
  }

  /// Returns the groups in the order of the values' keys.
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
