/// Sums and averages. Where an index has the field and the whole condition, its entries alone are read.
///
/// Each throws what ``StoreQuery/fetch(in:)`` does; a sum of integers `.sumTooLarge`.
extension StoreQuery {
  // MARK: - Inside of a transaction

  /// The sum of a field; zero without instances.
  public func sum<Value: SummableValue>(
    of path: any KeyPath<Format.Instance, Value> & Sendable, in tx: ReadTransaction
  ) throws -> Value {
    var sum = Value.zero
    try forEachNumber(path, tx) { try $0.add(to: &sum) }
    return sum
  }

  /// The sum of an optional field: nil adds nothing.
  public func sum<Value: SummableValue>(
    of path: any KeyPath<Format.Instance, Value?> & Sendable, in tx: ReadTransaction
  ) throws -> Value {
    var sum = Value.zero
    try forEachNumber(path, tx) { try $0?.add(to: &sum) }
    return sum
  }

  /// The average of a field; nil without instances.
  public func average<Value: SummableValue>(
    of path: any KeyPath<Format.Instance, Value> & Sendable, in tx: ReadTransaction
  ) throws -> Value.Average? {
    var (total, count) = (Value.zeroAverage, 0)
    try forEachNumber(path, tx) {
      $0.add(toAverage: &total)
      count += 1
    }
    return count == 0 ? nil : Value.average(total, count: count)
  }

  /// The average of an optional field, of the instances that have a value; nil where none has.
  public func average<Value: SummableValue>(
    of path: any KeyPath<Format.Instance, Value?> & Sendable, in tx: ReadTransaction
  ) throws -> Value.Average? {
    var (total, count) = (Value.zeroAverage, 0)
    try forEachNumber(path, tx) { value in
      guard let value else { return }
      value.add(toAverage: &total)
      count += 1
    }
    return count == 0 ? nil : Value.average(total, count: count)
  }

  private func forEachNumber<Field: KeyCodable>(
    _ path: any KeyPath<Format.Instance, Field> & Sendable, _ tx: ReadTransaction, _ body: (Field) throws -> Void
  ) throws {
    let field = QueryOrder(IndexField(path), isDescending: false)
    try QueryValues(maximum == nil ? unordered : self, [field], tx)?.forEach(path, body)
  }

  // MARK: - By itself

  /// The sum of a field; zero without instances.
  public func sum<Value: SummableValue>(
    of path: any KeyPath<Format.Instance, Value> & Sendable
  ) async throws -> Value {
    try await store.database.read { tx in try sum(of: path, in: tx) }
  }

  /// The sum of an optional field: nil adds nothing.
  public func sum<Value: SummableValue>(
    of path: any KeyPath<Format.Instance, Value?> & Sendable
  ) async throws -> Value {
    try await store.database.read { tx in try sum(of: path, in: tx) }
  }

  /// The average of a field; nil without instances.
  public func average<Value: SummableValue>(
    of path: any KeyPath<Format.Instance, Value> & Sendable
  ) async throws -> Value.Average? {
    try await store.database.read { tx in try average(of: path, in: tx) }
  }

  /// The average of an optional field, of the instances that have a value; nil where none has.
  public func average<Value: SummableValue>(
    of path: any KeyPath<Format.Instance, Value?> & Sendable
  ) async throws -> Value.Average? {
    try await store.database.read { tx in try average(of: path, in: tx) }
  }
}
