/// Sums and averages. If an index has the field and covers the whole condition, only its entries are read.
///
/// Each method throws what ``StoreQuery/fetch(in:)`` does; sums of integers throw `.sumTooLarge`.
extension StoreQuery {
  // MARK: - Inside a transaction

  /// Returns the sum of a field, or zero if there is no instance.
  public func sum<Value: SummableValue>(
    of path: any KeyPath<Format.Instance, Value> & Sendable, in tx: ReadTransaction
  ) throws -> Value {
    var sum = Value.zero
    try forEachNumber(path, tx) { try $0.add(to: &sum) }
    return sum
  }

  /// Returns the sum of an optional field, to which nil adds nothing.
  public func sum<Value: SummableValue>(
    of path: any KeyPath<Format.Instance, Value?> & Sendable, in tx: ReadTransaction
  ) throws -> Value {
    var sum = Value.zero
    try forEachNumber(path, tx) { try $0?.add(to: &sum) }
    return sum
  }

  /// Returns the average of a field, or nil if there is no instance.
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

  /// Returns the average of an optional field over the instances that have a value, or nil if none has.
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

  // MARK: - In a transaction of its own

  /// Returns the sum of a field, or zero if there is no instance.
  public func sum<Value: SummableValue>(
    of path: any KeyPath<Format.Instance, Value> & Sendable
  ) async throws -> Value {
    try await store.database.read { tx in try sum(of: path, in: tx) }
  }

  /// Returns the sum of an optional field, to which nil adds nothing.
  public func sum<Value: SummableValue>(
    of path: any KeyPath<Format.Instance, Value?> & Sendable
  ) async throws -> Value {
    try await store.database.read { tx in try sum(of: path, in: tx) }
  }

  /// Returns the average of a field, or nil if there is no instance.
  public func average<Value: SummableValue>(
    of path: any KeyPath<Format.Instance, Value> & Sendable
  ) async throws -> Value.Average? {
    try await store.database.read { tx in try average(of: path, in: tx) }
  }

  /// Returns the average of an optional field over the instances that have a value, or nil if none has.
  public func average<Value: SummableValue>(
    of path: any KeyPath<Format.Instance, Value?> & Sendable
  ) async throws -> Value.Average? {
    try await store.database.read { tx in try average(of: path, in: tx) }
  }
}
